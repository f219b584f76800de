package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
)

// controlPlane says where the parts of the control plane listen.
type controlPlane struct {
	address   string // of the API server
	port      int    // of the API server
	etcd      string // URL for clients
	etcdPeers string // URL for other members, of which there are none
	// Ports of metrics and profiles; 0 for none.
	controllerManagerPort, schedulerPort int
	// reconciler is how the Service "kubernetes" gets its endpoints.
	reconciler string
	// outsidePort is the API server's port on the caller's loopback, door the
	// socket that listens there where it is not the API server's own.
	outsidePort int
	door        *os.File
}

// url is the API server's for everything in the cluster.
func (p *controlPlane) url() string { return "https://" + p.hostPort() }

func (p *controlPlane) hostPort() string {
	return net.JoinHostPort(p.address, strconv.Itoa(p.port))
}

// isolatedControlPlane listens where everybody expects it, behind the walls of
// the host's namespaces, with a door to the caller's loopback.
func isolatedControlPlane() (*controlPlane, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	door, err := listener.(*net.TCPListener).File()
	if err != nil {
		return nil, err
	}
	return &controlPlane{
		address:               hostAddress,
		port:                  apiServerPort,
		etcd:                  "http://127.0.0.1:2379",
		etcdPeers:             "http://127.0.0.1:2380",
		controllerManagerPort: 10257,
		schedulerPort:         10259,
		reconciler:            "lease",
		outsidePort:           listener.Addr().(*net.TCPAddr).Port,
		door:                  door,
	}, nil
}

// loopbackControlPlane listens on free ports of the caller's loopback.
func loopbackControlPlane() (*controlPlane, error) {
	var ports [3]int
	for i := range ports {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return &controlPlane{
		address:     "127.0.0.1",
		port:        ports[0],
		etcd:        fmt.Sprintf("http://127.0.0.1:%d", ports[1]),
		etcdPeers:   fmt.Sprintf("http://127.0.0.1:%d", ports[2]),
		reconciler:  "none", // endpoints must not be loopback addresses
		outsidePort: ports[0],
	}, nil
}

func (c *Cluster) newControlPlane() (*controlPlane, error) {
	if c.state.Isolated {
		return isolatedControlPlane()
	}
	return loopbackControlPlane()
}

// startControlPlane boots the host and returns when the API server is ready.
func (c *Cluster) startControlPlane(ctx context.Context, programs *binaries) (*authority, error) {
	plane, err := c.newControlPlane()
	if err != nil {
		return nil, err
	}
	if plane.door != nil {
		defer plane.door.Close()
	}
	c.state.Server = plane.url()
	ca, err := c.issueCertificates(plane)
	if err != nil {
		return nil, err
	}
	services, err := c.hostServices(ctx, plane, programs, ca)
	if err != nil {
		return nil, err
	}
	c.assemble()
	if err := c.writeState(); err != nil {
		return nil, err
	}
	spec := machine.Spec{
		Name:     "host",
		Dir:      c.path("machines", "host"),
		Cluster:  c.dir,
		Isolated: c.state.Isolated,
		Services: services,
	}
	boot := machine.BootOptions{Init: programs.path("init"), Listener: plane.door}
	if c.state.Isolated {
		if spec.ControlGroups, err = c.controlGroupsOf("host"); err != nil {
			return nil, err
		}
		if err := makeControlGroups(ctx, spec.ControlGroups); err != nil {
			return nil, err
		}
		spec.Sysctls = hostSysctls
		spec.ForwardTo = plane.hostPort()
		boot.Connect = c.connectHost
	}
	if c.host, err = machine.Boot(ctx, spec, boot); err != nil {
		return nil, err
	}
	if c.state.Isolated {
		if err := c.pushPauseImage(ctx, programs); err != nil {
			return nil, err
		}
	}
	return ca, c.waitForAPIServer(ctx)
}

// hostSysctls let the host route between pods and nodes, and open connections
// at the rate of a whole internet of clients.
var hostSysctls = map[string]string{
	"net/ipv4/ip_forward":                 "1",
	"net/ipv4/ip_local_port_range":        "12000 65535",
	"net/ipv4/tcp_tw_reuse":               "1",
	"net/ipv4/ip_unprivileged_port_start": "0",
}

// issueCertificates makes the authority, certificates and kubeconfigs of the
// control plane and its administrator.
func (c *Cluster) issueCertificates(plane *controlPlane) (*authority, error) {
	ca, err := newAuthority(c.path("pki"), "ca")
	if err != nil {
		return nil, err
	}
	// It signs for API servers that this one stands in front of.
	frontProxyCA, err := newAuthority(c.path("pki"), "front-proxy-ca")
	if err != nil {
		return nil, err
	}
	if err := frontProxyCA.issue("front-proxy", "front-proxy", nil); err != nil {
		return nil, err
	}
	if err := c.issueServingCertificates(ca); err != nil {
		return nil, err
	}
	administrators := []string{"system:masters"}
	for _, subject := range []struct {
		name, user string
		groups     []string
	}{
		{name: "kubelet-client", user: "kube-apiserver-kubelet-client", groups: administrators},
		{name: "service-account", user: "service-account"},
		{name: "kube-controller-manager", user: "system:kube-controller-manager"},
		{name: "kube-scheduler", user: "system:kube-scheduler"},
		{name: "kube-proxy", user: "system:kube-proxy"},
		{name: "kwok", user: "kwok", groups: administrators},
		{name: "admin", user: "admin", groups: administrators},
	} {
		if err := ca.issue(subject.name, subject.user, subject.groups); err != nil {
			return nil, err
		}
	}
	for _, user := range []string{"kube-controller-manager", "kube-scheduler", "kube-proxy", "kwok"} {
		if err := writeKubeconfig(c.kubeconfigOf(user), plane.url(), ca, user); err != nil {
			return nil, err
		}
	}
	outside := fmt.Sprintf("https://127.0.0.1:%d", plane.outsidePort)
	return ca, writeKubeconfig(c.Kubeconfig(), outside, ca, "admin")
}

func (c *Cluster) kubeconfigOf(user string) string {
	return c.path("pki", user+".kubeconfig")
}

func (c *Cluster) waitForAPIServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("the API server is not ready after 2 minutes"))
	defer cancel()
	config, err := c.RESTConfig()
	if err != nil {
		return err
	}
	for {
		err := apiServerReady(ctx, config)
		if err == nil {
			return nil
		}
		if sleep(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// apiServerReady asks over a connection of its own: one that was opened to an
// API server that died would only time out.
func apiServerReady(ctx context.Context, config *rest.Config) error {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return err
	}
	client := &http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the API server answers %s", response.Status)
	}
	return nil
}

// waitForServiceAccount waits for the account that pods run under, without
// which none can be created: the sign that the controllers run.
func (c *Cluster) waitForServiceAccount(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	client, err := c.client()
	if err != nil {
		return err
	}
	for {
		_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		if sleep(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("the controller manager does not work: %w", err)
		}
	}
}

// StopAPIServer kills the API server, as the loss of the control plane would.
func (c *Cluster) StopAPIServer(ctx context.Context) error {
	return c.host.StopService(ctx, "kube-apiserver")
}

// StartAPIServer starts the API server again and returns when it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	if err := c.host.StartService(ctx, "kube-apiserver"); err != nil {
		return err
	}
	return c.waitForAPIServer(ctx)
}

// StopControllers kills kube-controller-manager and kube-scheduler: nobody writes then
// but those who are asked to, and the API server itself.
func (c *Cluster) StopControllers(ctx context.Context) error {
	return errors.Join(c.host.StopService(ctx, "kube-controller-manager"), c.host.StopService(ctx, "kube-scheduler"))
}
