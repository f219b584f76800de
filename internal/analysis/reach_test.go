package analysis

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownMachine lets connections to this machine through, and no name or port be asked for.
const ownMachine = "127.0.0.0/8:1"

// service leads from port 80 to a port of pods that are called as it is.
func service(namespace, name string, port int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(port)}},
		},
	}
}

// pod is a ready pod of a service on this machine.
func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{}}},
		Status: corev1.PodStatus{
			PodIP: "127.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}

// TestReach asks the Services of a check's own namespace, and what the operator permits.
// Nothing else is asked at all.
func TestReach(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	t.Cleanup(server.Close)
	wave, port := waveOf(t, server)
	portText := strconv.Itoa(int(port))
	leads := func(change func(*corev1.Service)) *corev1.Service {
		s := service("ns", "judge", port)
		change(s)
		return s
	}
	is := func(change func(*corev1.Pod)) *corev1.Pod {
		p := pod("ns", "judge")
		change(p)
		return p
	}
	judge, one := service("ns", "judge", port), pod("ns", "judge")
	external := leads(func(s *corev1.Service) {
		s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
	})
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"}}}, Ports: []discoveryv1.EndpointPort{{Port: &port}},
	}
	api := service("default", "kubernetes", 6443)
	api.Spec.ClusterIPs, api.Spec.Ports[0].Port = []string{"127.0.0.1"}, port
	for name, c := range map[string]struct {
		url     string
		hosts   []string
		objects []client.Object
		want    string // empty where it is asked
	}{
		"a Service of the namespace": {"http://judge/", nil, []client.Object{judge, one}, ""},
		"by its namespace":           {"http://judge.ns/", nil, []client.Object{judge, one}, ""},
		"by its whole name":          {"http://judge.ns.svc.cluster.local./", nil, []client.Object{judge, one}, ""},
		"by the name of a port": {"http://judge/", nil, []client.Object{
			leads(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("http") }),
			is(func(p *corev1.Pod) {
				p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: port}}
			}),
		}, ""},
		"on the host network, at an own port": {"http://judge/", nil, []client.Object{judge, is(func(p *corev1.Pod) { p.Spec.HostNetwork = true })}, ""},
		"an address":                          {server.URL, []string{"127.0.0.1"}, nil, ""},
		"an address at its port":              {server.URL, []string{"127.0.0.1:" + portText}, nil, ""},
		"a Service of another namespace":      {"http://judge.other/", nil, []client.Object{service("other", "judge", port), pod("other", "judge")}, "judge.other is no Service in namespace ns"},
		"another of the same name":            {"http://judge.other/", nil, []client.Object{judge, one}, "judge.other is no Service in namespace ns"},
		"on the host network, at another's port": {"http://judge/", nil, []client.Object{
			leads(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(9100) }), is(func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
		}, "no pod of Service judge is ready"},
		"no Service":                       {"http://judge.example.com/", nil, nil, "is no Service in namespace ns, and --analysis-hosts does not permit it at port 80"},
		"another port of it":               {"http://judge:81/", nil, []client.Object{judge, one}, "Service judge has no TCP port 81"},
		"without pods":                     {"http://judge/", nil, []client.Object{judge}, "no pod of Service judge is ready"},
		"with one of another namespace":    {"http://judge/", nil, []client.Object{judge, pod("other", "judge")}, "no pod of Service judge is ready"},
		"with one that is not ready":       {"http://judge/", nil, []client.Object{judge, is(func(p *corev1.Pod) { p.Status.Conditions = nil })}, "no pod of Service judge is ready"},
		"without a selector":               {"http://judge/", nil, []client.Object{leads(func(s *corev1.Service) { s.Spec.Selector = nil }), one}, "selects no pods"},
		"an external name":                 {"http://judge:" + portText, nil, []client.Object{external}, "leads to localhost, which --analysis-hosts does not permit"},
		"an external name to this machine": {"http://judge:" + portText, []string{"localhost"}, []client.Object{external}, "no name may lead to"},
		"a name of this machine":           {"http://localhost:" + portText, []string{"localhost"}, nil, "no name may lead to"},
		"this machine among all":           {server.URL, []string{"0.0.0.0/0"}, nil, "--analysis-hosts does not permit it"},
		"an address at another port":       {server.URL, []string{"127.0.0.1:1"}, nil, "--analysis-hosts does not permit it"},
		"a kubelet among all ports":        {"http://127.0.0.1:10250/", []string{"127.0.0.1"}, nil, "--analysis-hosts does not permit it"},
		"metadata":                         {"http://169.254.169.254/latest/meta-data", []string{"0.0.0.0/0"}, nil, "--analysis-hosts does not permit it"},
		"the API server's endpoint":        {server.URL, []string{"127.0.0.1"}, []client.Object{slice}, "is the API server"},
		"the API server's Service":         {server.URL, []string{"127.0.0.1"}, []client.Object{api}, "is the API server"},
		"a pod that is on this machine":    {"http://judge/", []string{"192.0.2.1"}, []client.Object{judge, one}, "no name may lead to"},
		"no port":                          {"http://judge:x/", nil, nil, "its URL cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			asked = 0
			if c.hosts == nil {
				c.hosts = []string{ownMachine}
			}
			m := measuring(t, c.hosts, c.objects...)
			for _, check := range []v1alpha1.AnalysisCheck{
				{Webhook: &v1alpha1.WebhookCheck{URL: c.url}},
				{Prometheus: &v1alpha1.PrometheusCheck{Address: c.url, Query: "up", Success: "> 0"}},
			} {
				err := m.Measure(context.Background(), check, wave)
				if c.want == "" && check.Webhook != nil && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("%v, want %q", err, c.want)
				}
			}
			if (asked > 0) != (c.want == "") {
				t.Errorf("it was asked %d times", asked)
			}
		})
	}
}

// TestReachOfTheAPIServerByItsURL is refused also where the Service says nothing of it.
func TestReachOfTheAPIServerByItsURL(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	wave, _ := waveOf(t, server)
	m := measuring(t, []string{"127.0.0.1"})
	m.APIServer = server.URL
	err := m.Measure(context.Background(), v1alpha1.AnalysisCheck{Webhook: &v1alpha1.WebhookCheck{URL: server.URL}}, wave)
	if err == nil || !strings.Contains(err.Error(), "is the API server") {
		t.Error(err)
	}
}

// TestReachOfNodes asks the ports of the wave's own pods, and node ports of its namespace.
func TestReachOfNodes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	wave, port := waveOf(t, server)
	published := service("ns", "proxy", 8080)
	published.Spec.Type, published.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, port
	theirs, external, kubelets, datagrams := published.DeepCopy(), published.DeepCopy(), published.DeepCopy(), published.DeepCopy()
	datagrams.Spec.Ports[0].Protocol = corev1.ProtocolUDP
	theirs.Namespace, external.Spec.Type, kubelets.Spec.Ports[0].NodePort = "other", corev1.ServiceTypeExternalName, 10250
	const refused = "of the nodes is none that the template declares"
	for name, c := range map[string]struct {
		port    int32
		own     []int32
		held    []int32
		hosts   []string
		objects []client.Object
		want    string
	}{
		"declared, by a pod that runs":     {port, []int32{port}, []int32{port}, nil, nil, ""},
		"declared, by no pod that runs":    {port, []int32{port}, nil, nil, nil, "node n1 runs no pod of the template or health checker that may listen on port"},
		"declared, and a node port":        {port, []int32{port}, nil, nil, []client.Object{published}, ""},
		"a node port":                      {port, nil, nil, nil, []client.Object{published}, ""},
		"permitted":                        {port, nil, nil, []string{"127.0.0.0/8"}, nil, ""},
		"not declared":                     {port, []int32{80}, []int32{80}, nil, nil, refused},
		"a node port of another namespace": {port, nil, nil, nil, []client.Object{theirs}, refused},
		"a number that nothing allots":     {port, nil, nil, nil, []client.Object{external}, refused},
		"a node port of another protocol":  {port, nil, nil, nil, []client.Object{datagrams}, refused},
		"the kubelet's, as a node port":    {10250, nil, nil, nil, []client.Object{kubelets}, refused},
		"the kubelet's, declared":          {10250, []int32{10250}, []int32{10250}, nil, nil, refused},
		"the cloud's controllers'":         {10258, []int32{10258}, []int32{10258}, nil, nil, refused},
		"etcd's metrics":                   {2381, []int32{2381}, []int32{2381}, nil, nil, refused},
		"the kubelet's, among all":         {10250, []int32{10250}, []int32{10250}, []string{"127.0.0.0/8"}, nil, refused},
		"this machine's":                   {port, []int32{port}, []int32{port}, []string{"192.0.2.1"}, nil, "no name may lead to 127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.hosts == nil {
				c.hosts = []string{ownMachine}
			}
			wave := wave
			wave.Ports, wave.Nodes = c.own, []rollout.WaveNode{{Name: "n1", Address: "127.0.0.1", Ports: c.held}}
			err := measuring(t, c.hosts, c.objects...).Measure(context.Background(), v1alpha1.AnalysisCheck{HTTP: &v1alpha1.HTTPCheck{Port: c.port}}, wave)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestReachOfAnOddKubelet is refused, however it is come to, unless an entry names its port.
func TestReachOfAnOddKubelet(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	t.Cleanup(server.Close)
	wave, port := waveOf(t, server)
	wave.Kubelets = []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port))}
	behind := pod("ns", "judge")
	behind.Spec.HostNetwork = true
	objects := []client.Object{service("ns", "judge", port), behind}
	checks := []v1alpha1.AnalysisCheck{{HTTP: &v1alpha1.HTTPCheck{Port: port}}, {Webhook: &v1alpha1.WebhookCheck{URL: "http://judge/"}}, {Webhook: &v1alpha1.WebhookCheck{URL: server.URL}}}
	for _, check := range checks {
		err := measuring(t, []string{"127.0.0.1"}, objects...).Measure(t.Context(), check, wave)
		if err == nil || !strings.Contains(err.Error(), "is a kubelet, which no check may ask unless --analysis-hosts names its port") || asked > 0 {
			t.Errorf("%+v: %v, asked %d times", check, err, asked)
		}
	}
	m := measuring(t, []string{"127.0.0.1:" + strconv.Itoa(int(port))}, objects...)
	for _, check := range checks {
		if err := m.Measure(t.Context(), check, wave); err != nil {
			t.Error(err)
		}
	}
}

// TestHosts reads what the operator permits, and refuses what means nothing.
func TestHosts(t *testing.T) {
	for entry, c := range map[string]struct{ yes, no string }{
		"prometheus.monitoring":      {"prometheus.monitoring:9090 PROMETHEUS.monitoring.:80", "monitoring:80 prometheus.monitoring:10250"},
		"prometheus.monitoring:9090": {"prometheus.monitoring:9090", "prometheus.monitoring:80"},
		"kubelet.example:10250":      {"kubelet.example:10250", "kubelet.example:80"},
		"*.example.com":              {"a.example.com:443 a.b.example.com:80", "example.com:443 aexample.com:443"},
		"192.0.2.0/24":               {"192.0.2.7:80 [::ffff:192.0.2.7]:80", "192.0.3.7:80 x:80"},
		"192.0.2.7:80":               {"192.0.2.7:80", "192.0.2.7:81"},
		"2001:db8::/32":              {"[2001:db8::1]:80", "[2001:db9::1]:80"},
		"[2001:db8::]:80":            {"[2001:db8::]:80", "[2001:db8::]:81 [2001:db8::1]:80"},
		"::/0":                       {"[2001:db8::1]:80", "[::1]:80 [fe80::1]:80 [fd00:ec2::254]:80 [ff02::1]:80 [::]:80"},
		"0.0.0.0/0":                  {"192.0.2.7:80", "127.0.0.1:80 169.254.169.254:80 0.0.0.0:80 224.0.0.1:80"},
		"169.254.169.254":            {"169.254.169.254:80", "169.254.169.253:80"},
	} {
		hosts, err := ParseHosts([]string{entry})
		if err != nil {
			t.Errorf("%s: %v", entry, err)
		}
		for want, addresses := range map[bool]string{true: c.yes, false: c.no} {
			for _, address := range strings.Fields(addresses) {
				name, port, err := net.SplitHostPort(address)
				number, _ := strconv.ParseUint(port, 10, 16)
				if got := hosts.permit(name, uint16(number)); got != want || err != nil {
					t.Errorf("%s permits %s: %t, %v", entry, address, got, err)
				}
			}
		}
	}
	for _, entry := range []string{"", "http://prometheus", "prometheus:0", "prometheus:http", "prometheus:65536", "*", "a_b", "192.0.2.0/33", "a/24", "[::1", "a:80:80"} {
		if hosts, err := ParseHosts([]string{entry}); err == nil {
			t.Errorf("%q is read as %+v", entry, hosts)
		}
	}
}

// TestAPIServersAreRemembered reads them once in a while, and goes on with those of before
// where they cannot be read.
func TestAPIServersAreRemembered(t *testing.T) {
	m := measuring(t, nil)
	m.APIServer = "https://192.0.2.1"
	want := netip.MustParseAddrPort("192.0.2.1:443")
	for range 2 {
		at, err := m.forbidden(t.Context())
		if err != nil || !at[want] {
			t.Errorf("%v, %v", at, err)
		}
		m.Live = failing{}
		m.apiServers.readAt = m.apiServers.readAt.Add(-knownFor)
	}
	m = measuring(t, nil)
	m.Live = failing{}
	if err := m.Measure(t.Context(), v1alpha1.AnalysisCheck{Webhook: &v1alpha1.WebhookCheck{URL: "http://judge"}}, rollout.Wave{}); err == nil || !strings.Contains(err.Error(), "the addresses of the API server are not known") {
		t.Error(err)
	}
}

type failing struct{ client.Reader }

func (failing) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return context.DeadlineExceeded
}

// TestAPIServersThatAnswerNothing keep no measurement for longer than its own time, also of
// those that wait for what another one reads.
func TestAPIServersThatAnswerNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := measuring(t, nil)
		m.Live = hanging{}
		began := time.Now()
		failures := make(chan error, 8)
		for range 8 {
			go func() {
				failures <- m.Measure(t.Context(), v1alpha1.AnalysisCheck{Webhook: &v1alpha1.WebhookCheck{URL: "http://judge"}}, rollout.Wave{})
			}()
		}
		for range 8 {
			if err := <-failures; err == nil || err.Error() != "it took longer than 5s" {
				t.Error(err)
			}
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("they took %s", took)
		}
	})
}

type hanging struct{ client.Reader }

func (hanging) List(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	<-ctx.Done()
	return ctx.Err()
}
