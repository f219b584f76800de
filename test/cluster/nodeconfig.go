package cluster

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
)

// spec writes the node's configuration and says how to run it.
func (n *Node) spec(programs *binaries, ca *authority) (machine.Spec, error) {
	config, err := n.writeConfigs(ca)
	if err != nil {
		return machine.Spec{}, err
	}
	mounts, err := n.mounts()
	if err != nil {
		return machine.Spec{}, err
	}
	groups, err := n.cluster.controlGroupsOf(n.Name())
	if err != nil {
		return machine.Spec{}, err
	}
	containerd := n.service(programs, "containerd", "--config", config.containerd)
	kubelet := n.service(programs, "kubelet",
		"--config="+config.kubelet,
		"--kubeconfig="+config.kubeconfig,
		"--root-dir=/run/machine/kubelet",
		"--hostname-override="+n.Name(),
		"--node-ip="+n.IP(),
		"--node-labels=topology.kubernetes.io/zone="+n.Zone(),
	)
	kubelet.After = "/run/containerd/containerd.sock"
	kubeProxy := n.service(programs, "kube-proxy", "--config="+config.kubeProxy)
	return machine.Spec{
		Name:          n.Name(),
		Dir:           n.dir(),
		Cluster:       n.cluster.dir,
		Isolated:      true,
		Mounts:        mounts,
		ControlGroups: groups,
		Sysctls:       nodeSysctls(),
		Services:      []machine.Service{containerd, kubelet, kubeProxy},
	}, nil
}

// nodeSysctls let a node route to its pods, and forget at once a connection that
// nobody answered or that its server reset. Otherwise connection tracking leads new
// ones from the same port to the same pod for two minutes or ten seconds, also when
// that is dead (docs/guides/nodeport.md): all clients have one address here, and
// ports come round faster than that.
func nodeSysctls() map[string]string {
	out := map[string]string{
		"net/ipv4/ip_forward":                 "1",
		"net/ipv4/ip_unprivileged_port_start": "0",
	}
	for _, state := range []string{"syn_sent", "close"} {
		name := "net/netfilter/nf_conntrack_tcp_timeout_" + state
		// It is absent where connection tracking is a module that nobody loaded yet.
		if _, err := os.Stat(filepath.Join("/proc/sys", name)); err == nil {
			out[name] = "3"
		}
	}
	return out
}

func (n *Node) service(programs *binaries, name string, args ...string) machine.Service {
	service := n.cluster.service(programs, name, args)
	service.Log = n.cluster.path("logs", n.Name()+"-"+name+".log")
	return service
}

// mounts give the node a /run and a /var/log of its own. Its files are seen
// below /run/machine, so that no Unix socket's path grows too long.
func (n *Node) mounts() ([]machine.Mount, error) {
	mounts := []machine.Mount{{Target: "/run"}}
	for _, folder := range []struct{ name, target string }{
		{"kubelet", "/run/machine/kubelet"},
		{"containerd", "/run/machine/containerd"},
		{"log", "/var/log"},
	} {
		source := filepath.Join(n.dir(), folder.name)
		if err := os.MkdirAll(source, 0o755); err != nil {
			return nil, err
		}
		mounts = append(mounts, machine.Mount{Source: source, Target: folder.target})
	}
	return n.shadowSysctls(mounts)
}

// kubeletSysctls are the kernel parameters that a kubelet sets as it pleases.
// They have no namespace.
var kubeletSysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom",
	"kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// shadowSysctls puts ordinary files over kernel parameters, so that the
// developer's machine does not reboot on a kernel's oops for having run a
// kubelet once.
func (n *Node) shadowSysctls(mounts []machine.Mount) ([]machine.Mount, error) {
	for _, name := range kubeletSysctls {
		parameter := filepath.Join("/proc/sys", name)
		value, err := os.ReadFile(parameter)
		if err != nil {
			return nil, err
		}
		shadow, err := writeFile(filepath.Join(n.dir(), "sysctls"), filepath.Base(name), string(value))
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, machine.Mount{Source: shadow, Target: parameter})
	}
	return mounts, nil
}

// nodeConfigs are the files that configure a node.
type nodeConfigs struct {
	containerd, kubelet, kubeconfig, kubeProxy string
}

func (n *Node) writeConfigs(ca *authority) (files nodeConfigs, err error) {
	user := "system:node:" + n.Name()
	if err := ca.issue(n.Name(), user, []string{"system:nodes"}, n.Name(), n.IP()); err != nil {
		return files, err
	}
	files.kubeconfig = filepath.Join(n.dir(), "kubelet.kubeconfig")
	if err := os.MkdirAll(n.dir(), 0o755); err != nil {
		return files, err
	}
	if err := writeKubeconfig(files.kubeconfig, n.cluster.state.Server, ca, n.Name()); err != nil {
		return files, err
	}
	resolvConf, err := writeFile(n.dir(), "resolv.conf", "options timeout:1 attempts:1\n")
	if err != nil {
		return files, err
	}
	registries := filepath.Join(n.dir(), "registries")
	cni := filepath.Join(n.dir(), "cni")
	for _, config := range []struct {
		dir, name string
		values    map[string]string
		path      *string
	}{
		{n.dir(), "kubelet.yaml", map[string]string{
			"CA": ca.certificateFile("ca"), "Certificate": ca.certificateFile(n.Name()), "Key": ca.keyFile(n.Name()),
			"ResolvConf": resolvConf, "ClusterDNS": clusterDNS,
		}, &files.kubelet},
		{n.dir(), "kube-proxy.yaml", map[string]string{
			"Name": n.Name(), "PodNetwork": podNetwork, "Kubeconfig": n.cluster.kubeconfigOf("kube-proxy"),
		}, &files.kubeProxy},
		{n.dir(), "containerd.toml", map[string]string{
			"PauseImage": pauseImage, "Registries": registries, "CNI": cni, "Snapshotter": snapshotter(n.dir()),
			"Platform": "linux/" + runtime.GOARCH,
		}, &files.containerd},
		{cni, "cni.conflist", map[string]string{"PodSubnet": podSubnet(n.number)}, new(string)},
		{filepath.Join(registries, "_default"), "hosts.toml", map[string]string{"Registry": registryURL}, new(string)},
	} {
		if *config.path, err = writeConfig(config.dir, config.name, config.values); err != nil {
			return files, err
		}
	}
	return files, nil
}

// snapshotter is how containerd lays images over each other: with overlayfs,
// or by copying where the folder is on an overlayfs itself, as in a container.
func snapshotter(dir string) string {
	const overlayfs = 0x794c7630
	var filesystem syscall.Statfs_t
	if err := syscall.Statfs(dir, &filesystem); err == nil && uint32(filesystem.Type) == overlayfs {
		return "native"
	}
	return "overlayfs"
}
