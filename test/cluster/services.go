package cluster

import (
	"context"
	"fmt"
	"strconv"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
)

// hostServices are the control plane, and the registry where there are nodes
// to pull from it, and kwok where there are nodes to simulate.
func (c *Cluster) hostServices(ctx context.Context, plane *controlPlane, programs *binaries, ca *authority) ([]machine.Service, error) {
	audit, err := writeConfig(c.path("machines", "host"), "audit.yaml", nil)
	if err != nil {
		return nil, err
	}
	services := []machine.Service{
		c.service(programs, "etcd", c.etcdArgs(plane)),
		c.service(programs, "kube-apiserver", c.apiServerArgs(plane, ca, audit)),
		c.service(programs, "kube-controller-manager", c.controllerManagerArgs(plane, ca)),
		c.service(programs, "kube-scheduler", c.schedulerArgs(plane)),
	}
	// The others need the API server to start; without this they would try
	// once a second.
	for i := range services[2:] {
		services[2+i].After = plane.hostPort()
	}
	if c.state.Isolated {
		services = append(services, c.service(programs, "registry", []string{
			"-listen", fmt.Sprintf("%s:%d", hostAddress, registryPort),
			"-blobs", c.path("machines", "host", "registry"),
		}))
	}
	if c.state.SimulatedNodes > 0 {
		config, err := c.writeKwokConfig(ctx, programs)
		if err != nil {
			return nil, err
		}
		services = append(services, c.service(programs, "kwok", c.kwokArgs(config)))
	}
	return services, nil
}

func (c *Cluster) service(programs *binaries, name string, args []string) machine.Service {
	return machine.Service{
		Name: name,
		Path: programs.path(name),
		Args: args,
		Env:  []string{"PATH=" + programs.searchPath()},
		Log:  c.path("logs", name+".log"),
	}
}

func (c *Cluster) etcdArgs(plane *controlPlane) []string {
	return []string{
		"--data-dir=" + c.path("machines", "host", "etcd"),
		"--listen-client-urls=" + plane.etcd,
		"--advertise-client-urls=" + plane.etcd,
		"--listen-peer-urls=" + plane.etcdPeers,
		"--initial-advertise-peer-urls=" + plane.etcdPeers,
		"--initial-cluster=default=" + plane.etcdPeers,
		// The data does not outlive the cluster, so it need not survive a
		// power failure either.
		"--unsafe-no-fsync",
		"--log-level=warn",
	}
}

func (c *Cluster) apiServerArgs(plane *controlPlane, ca *authority, audit string) []string {
	return []string{
		"--etcd-servers=" + plane.etcd,
		"--bind-address=" + plane.address,
		"--advertise-address=" + plane.address,
		"--secure-port=" + strconv.Itoa(plane.port),
		"--endpoint-reconciler-type=" + plane.reconciler,
		"--tls-cert-file=" + ca.certificateFile("kube-apiserver"),
		"--tls-private-key-file=" + ca.keyFile("kube-apiserver"),
		"--client-ca-file=" + ca.certificateFile("ca"),
		"--kubelet-certificate-authority=" + ca.certificateFile("ca"),
		"--kubelet-client-certificate=" + ca.certificateFile("kubelet-client"),
		"--kubelet-client-key=" + ca.keyFile("kubelet-client"),
		"--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file=" + ca.certificateFile("front-proxy-ca"),
		"--requestheader-allowed-names=front-proxy",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + ca.certificateFile("front-proxy"),
		"--proxy-client-key-file=" + ca.keyFile("front-proxy"),
		"--service-account-issuer=" + Issuer,
		"--service-account-key-file=" + ca.certificateFile("service-account"),
		"--service-account-signing-key-file=" + ca.keyFile("service-account"),
		"--service-cluster-ip-range=" + serviceNetwork,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--audit-policy-file=" + audit,
		"--audit-log-path=" + c.AuditLog(),
		"--audit-log-maxsize=4096", // MB; tests read the file as a whole
		// Room for the heartbeats and pods of thousands of simulated nodes.
		"--max-requests-inflight=3000",
		"--max-mutating-requests-inflight=1500",
	}
}

func (c *Cluster) controllerManagerArgs(plane *controlPlane, ca *authority) []string {
	kubeconfig := c.kubeconfigOf("kube-controller-manager")
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(plane.controllerManagerPort),
		// When it is quick, it asks before the API server has all its roles.
		"--authentication-tolerate-lookup-failure",
		// There is one, and it shall outlive an API server that is away.
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + ca.keyFile("service-account"),
		"--root-ca-file=" + ca.certificateFile(publishedAuthorities),
		"--cluster-signing-cert-file=" + ca.certificateFile("ca"),
		"--cluster-signing-key-file=" + ca.keyFile("ca"),
	}
	// With the default of 20 requests a second thousands of nodes take
	// minutes, and controllers take 6 s to start. With a few real nodes it is
	// the default, as users have it.
	if c.state.SimulatedNodes > 0 || c.state.Nodes == 0 {
		args = append(args,
			"--kube-api-qps=2000", "--kube-api-burst=2000",
			"--concurrent-deployment-syncs=50", "--concurrent-replicaset-syncs=50",
		)
	}
	if c.state.SimulatedNodes > 0 {
		// On a busy machine the heartbeats of thousands of nodes come late, and
		// kwok never turns a pod ready again that was declared unready for that.
		args = append(args, fmt.Sprintf("--node-monitor-grace-period=%ds", max(600, 3*c.leaseSeconds())))
	}
	return args
}

func (c *Cluster) schedulerArgs(plane *controlPlane) []string {
	kubeconfig := c.kubeconfigOf("kube-scheduler")
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(plane.schedulerPort),
		"--leader-elect=false",
	}
	if c.state.SimulatedNodes > 0 {
		args = append(args, "--kube-api-qps=2000", "--kube-api-burst=2000")
	}
	return args
}
