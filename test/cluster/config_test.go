package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
)

func TestSimulatedAddresses(t *testing.T) {
	for index, want := range map[int]string{0: "127.1.0.1", 254: "127.1.0.255", 255: "127.1.1.0", 4999: "127.1.19.136"} {
		if got := simulatedAddress(index); got != want {
			t.Errorf("address %d is %s, want %s", index, got, want)
		}
	}
}

func TestCertificates(t *testing.T) {
	ca, err := newAuthority(t.TempDir(), "ca")
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.issue("node-1", "system:node:node-1", []string{"system:nodes"}, "node-1", "10.10.1.1"); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(ca.certificateFile("node-1"), ca.keyFile("node-1"))
	if err != nil {
		t.Fatal(err)
	}
	if pair.Leaf.Subject.CommonName != "system:node:node-1" || !slices.Equal(pair.Leaf.Subject.Organization, []string{"system:nodes"}) {
		t.Errorf("subject is %v", pair.Leaf.Subject)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	for _, host := range []string{"node-1", "10.10.1.1"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("as server %s: %v", host, err)
		}
	}
	client := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := pair.Leaf.Verify(client); err != nil {
		t.Errorf("as client: %v", err)
	}
}

func TestNodeConfigurations(t *testing.T) {
	c := &Cluster{dir: t.TempDir(), state: state{Server: "https://10.10.0.1:6443"}}
	ca, err := newAuthority(c.path("pki"), "ca")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.issueServingCertificates(ca); err != nil {
		t.Fatal(err)
	}
	node := newNode(c, 7)
	files, err := node.writeConfigs(ca)
	if err != nil {
		t.Fatal(err)
	}
	kubelet := parse(t, files.kubelet)
	if kubelet["kind"] != "KubeletConfiguration" || kubelet["tlsCertFile"] != ca.certificateFile("node-7") {
		t.Errorf("kubelet.yaml is %v", kubelet)
	}
	if proxy := parse(t, files.kubeProxy); proxy["mode"] != "iptables" || proxy["hostnameOverride"] != "node-7" {
		t.Errorf("kube-proxy.yaml is %v", proxy)
	}
	config, err := clientcmd.LoadFromFile(files.kubeconfig)
	if err != nil || config.Clusters["local"].Server != c.state.Server {
		t.Errorf("kubelet.kubeconfig is %v, %v", config, err)
	}
	cni, err := os.ReadFile(filepath.Join(node.dir(), "cni", "cni.conflist"))
	if err != nil || !json.Valid(cni) {
		t.Errorf("cni.conflist is %s, %v", cni, err)
	}
}

func parse(t *testing.T, file string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(data, &values); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return values
}

func TestHierarchies(t *testing.T) {
	for name, test := range map[string]struct {
		mountinfo string
		want      []machine.ControlGroup
	}{
		"v1 beside v2": {
			mountinfo: "22 1 254:0 / / rw - ext4 /dev/vda rw\n" +
				"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n" +
				"40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,release_agent=/x,name=systemd\n" +
				"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n",
			want: []machine.ControlGroup{
				{Mount: "/sys/fs/cgroup/cpu,cpuacct", Type: "cgroup", Options: "cpu,cpuacct"},
				{Mount: "/sys/fs/cgroup/systemd", Type: "cgroup", Options: "none,name=systemd"},
				{Mount: "/sys/fs/cgroup/unified", Type: "cgroup2"},
			},
		},
		"v2": {
			mountinfo: "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n",
			want:      []machine.ControlGroup{{Mount: "/sys/fs/cgroup", Type: "cgroup2"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parseHierarchies(test.mountinfo); !slices.Equal(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestLocalReference(t *testing.T) {
	for ref, want := range map[string]string{
		"nginx":                              "10.10.0.1:5000/docker.io/library/nginx:latest",
		"docker.io/mumoshu/controller:1":     "10.10.0.1:5000/docker.io/mumoshu/controller:1",
		"quay.io/a/b:2":                      "10.10.0.1:5000/quay.io/a/b:2",
		"registry.local/pause:latest":        "10.10.0.1:5000/registry.local/pause:latest",
		"registry.example.com:8443/x/y/z:v1": "10.10.0.1:5000/registry.example.com_8443/x/y/z:v1",
	} {
		got, err := localReference(ref)
		if err != nil {
			t.Errorf("%s: %v", ref, err)
			continue
		}
		if got.Name() != want {
			t.Errorf("%s is %s, want %s", ref, got.Name(), want)
		}
	}
}
