package issuer

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/authority"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

var everything = ctrl.Request{}

// denied is what an admission webhook answers.
func denied(format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: fmt.Sprintf(format, args...),
	}}
}

// TestAddress: the address of proxies is that of the Service, whatever it is not the reason is said.
func TestAddress(t *testing.T) {
	for name, test := range map[string]struct {
		change        func(*corev1.ServiceSpec)
		address, says string
	}{
		"IPv4":      {func(*corev1.ServiceSpec) {}, "10.0.0.1:9443", ""},
		"IPv6":      {func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "fd00::1", []string{"fd00::1"} }, "[fd00::1]:9443", ""},
		"both":      {func(s *corev1.ServiceSpec) { s.ClusterIPs = []string{"10.0.0.1", "fd00::1"} }, "10.0.0.1:9443", ""},
		"headless":  {func(s *corev1.ServiceSpec) { s.ClusterIP = corev1.ClusterIPNone }, "", "headless"},
		"none yet":  {func(s *corev1.ServiceSpec) { s.ClusterIP = "" }, "", "no cluster IP"},
		"two ports": {func(s *corev1.ServiceSpec) { s.Ports = append(s.Ports, s.Ports[0]) }, "", "2 ports"},
	} {
		s := service()
		test.change(&s.Spec)
		if address, problem := addressOf(s); address != test.address || !strings.Contains(problem, test.says) || (problem == "") != (address != "") {
			t.Errorf("%s: it is %q, %q", name, address, problem)
		}
	}
}

// TestNoService: without an address no ConfigMap is written, and that is said once, and again when it is
// another reason. ConfigMaps follow the address.
func TestNoService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := edge(t)
		c.remove(t, service())
		r := c.replica(true)
		r.settle(t)
		if got := c.wrote(); got != "create Secret system" {
			t.Errorf("written is %s", got)
		}
		events, logs := r.said()
		if len(events) != 1 || !strings.HasPrefix(events[0], "Warning Service system/controllers AddressNotKnown: ") || len(logs) != 1 || !strings.Contains(logs[0], "no such Service") {
			t.Errorf("events are %q, logged is %q", events, logs)
		}
		r.pass(t)
		r.quiet(t, "the same again")
		headless := service()
		headless.Spec.ClusterIP = corev1.ClusterIPNone
		c.put(t, headless)
		r.pass(t)
		if events, logs := r.said(); len(events) != 1 || len(logs) != 1 || !strings.Contains(logs[0], "headless") {
			t.Errorf("events are %q, logged is %q", events, logs)
		}
		c.put(t, service())
		if r.settle(t); !r.accepted(t, "edge") {
			t.Error("proxies are not told when there is a Service")
		}
		moved := service()
		moved.Spec.ClusterIP = "fd00::1"
		c.put(t, moved)
		if r.settle(t); c.configMap(t, "edge").Data[authority.FileAddress] != "[fd00::1]:9443" {
			t.Errorf("proxies are told %v", c.configMap(t, "edge").Data)
		}
		r.quiet(t, "with a Service")
	})
}

// TestNamespaces: a ConfigMap is in each namespace with an IngressDaemonSet that a class of ours names, unless
// the namespace is being deleted. It stays when the class goes, as it is.
func TestNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ending := proxies("ending")
		now := metav1.Now()
		ending[0].SetDeletionTimestamp(&now)
		ending[0].SetFinalizers([]string{"kubernetes"})
		foreign, unnamed, noSet, noNamespace := proxies("foreign"), proxies("unnamed"), proxies("noset"), proxies("nonamespace")
		other := classOf("foreign")
		other.Spec.Controller = "k8s.io/ingress-nginx"
		others := append(ending, foreign[0], foreign[1], other, unnamed[0], unnamed[1], noSet[0], noSet[2], noNamespace[1], noNamespace[2])
		c := edge(t, others...)
		r := c.replica(true)
		r.settle(t)
		if got := c.wrote(); got != "create Secret system, create ConfigMap edge" {
			t.Errorf("written is %s", got)
		}
		r.quiet(t, "namespaces that are left out")
		c.put(t, classOf("unnamed"))
		c.remove(t, classOf("edge"))
		changed := c.configMap(t, "edge")
		changed.Data["note"] = "mine"
		c.put(t, changed)
		r.settle(t)
		if got := c.wrote(); got != "create ConfigMap unnamed" {
			t.Errorf("written is %s", got)
		}
		if got := c.configMap(t, "edge"); got == nil || got.Data["note"] != "mine" {
			t.Errorf("without a class the ConfigMap is %v", got)
		}
		c.put(t, classOf("edge"))
		if r.settle(t); !r.accepted(t, "edge") || c.configMap(t, "edge").Data["note"] != "" {
			t.Error("with a class again the ConfigMap is not restored")
		}
	})
}

// TestGatewayClassesUnknown: where GatewayClasses cannot be listed others have certificates all the same, and who trusts
// somebody already is told on. No other namespace gets a ConfigMap.
func TestGatewayClassesUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		namespace := gatewayv1.Namespace("gated")
		class := &gatewayv1.GatewayClass{ObjectMeta: named("", "gated")}
		class.Spec.ControllerName = routing.ControllerName
		class.Spec.ParametersRef = &gatewayv1.ParametersReference{
			Group: gatewayv1.Group(v1alpha1.Kind.Group), Kind: gatewayv1.Kind(v1alpha1.Kind.Kind), Namespace: &namespace, Name: "web",
		}
		c := edge(t, append(proxies("gated")[:2], class)...)
		c.unread = "UnstructuredList"
		r := c.replica(true)
		if r.settle(t); !r.accepted(t, "edge") || c.configMap(t, "gated") != nil {
			t.Errorf("written is %s", c.wrote())
		}
		c.unread = ""
		if r.settle(t); !r.accepted(t, "gated") {
			t.Error("when they can be listed, their proxies do not accept what is shown")
		}
		c.unread = "UnstructuredList"
		changed := c.configMap(t, "gated")
		changed.Data = map[string]string{}
		c.put(t, changed)
		again := c.replica(true)
		if again.settle(t); !again.accepted(t, "gated") {
			t.Error("a ConfigMap is not restored while they cannot be listed")
		}
	})
}

// TestSecretOfSomebodyElse: a Secret of another type is left alone and said, by the leader in an event, too.
func TestSecretOfSomebodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs := &corev1.Secret{ObjectMeta: named(home, Name), Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"password": []byte("hunter2")}}
		c := edge(t, theirs)
		r := c.replica(false)
		r.settle(t)
		events, logs := r.said()
		if len(events) != 0 || len(logs) != 1 || !strings.Contains(logs[0], "somebody else's") {
			t.Errorf("a follower's events are %q, logged is %q", events, logs)
		}
		r.leads = true
		for range 2 {
			r.settle(t)
		}
		events, logs = r.said()
		if len(events) != 1 || !strings.HasPrefix(events[0], "Warning Secret system/"+Name+" AuthoritiesNotUsable: ") || len(logs) != 0 {
			t.Errorf("the leader's events are %q, logged is %q", events, logs)
		}
		if got := c.wrote(); got != "" {
			t.Errorf("written is %s", got)
		}
		if _, err := r.Certificate(); err == nil || strings.Contains(fmt.Sprint(err, events, logs), "hunter2") {
			t.Errorf("the certificate is missing by %v", err)
		}
		c.remove(t, theirs)
		if r.settle(t); !r.accepted(t, "edge") {
			t.Error("it does not begin when the Secret is gone")
		}
		r.quiet(t, "with a Secret of its own")
	})
}

// TestOneNamespaceFails: the others are written, an event on the IngressDaemonSets there says so, once, and it
// is tried again.
func TestOneNamespaceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := edge(t, append(proxies("a"), proxies("z")...)...)
		r := c.replica(true)
		c.before = func(write string, _ client.Object) error {
			if write == "create ConfigMap edge" {
				return denied("exceeded quota %s", strings.Repeat("ä", 2000))
			}
			return nil
		}
		if after := r.settle(t); after > retryPause || c.configMap(t, "a") == nil || c.configMap(t, "z") == nil {
			t.Errorf("others are not written, or it looks again after %v", after)
		}
		events, logs := r.said()
		if len(events) != 1 || !strings.HasPrefix(events[0], "Warning IngressDaemonSet edge/web AuthoritiesNotPublished: ") || !strings.Contains(events[0], "exceeded quota") || len(logs) != 1 {
			t.Errorf("events are %q, logged is %q", events, logs)
		}
		if n := len(events[0]); n > len("Warning IngressDaemonSet edge/web AuthoritiesNotPublished: ")+1024 || !utf8.ValidString(events[0]) {
			t.Errorf("of a long message an event has %d bytes, for which it has no room: %q", n, events[0])
		}
		time.Sleep(retryPause)
		r.pass(t)
		r.quiet(t, "the same again")
		c.before = nil
		if r.settle(t); c.configMap(t, "edge") == nil {
			t.Error("it is not tried again")
		}
	})
}

// TestImmutable: what was made immutable is not written again and again, and an event says what to do about it.
func TestImmutable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := installed(t)
		yes := true
		files, keys := c.configMap(t, "edge"), c.secret(t)
		files.Immutable, files.Data[authority.FileAddress] = &yes, "10.0.0.9:9443"
		c.put(t, files)
		r.settle(t)
		events, _ := r.said()
		if len(events) != 1 || !strings.Contains(events[0], "IngressDaemonSet edge/web") || !strings.Contains(events[0], "immutable: delete it") {
			t.Errorf("events are %q", events)
		}
		c.remove(t, files)
		if r.settle(t); c.configMap(t, "edge").Immutable != nil || !r.accepted(t, "edge") {
			t.Error("it is not made anew")
		}
		c.wrote()
		keys.Immutable = &yes
		c.put(t, keys)
		// Some day another authority is due.
		time.Sleep(300 * 24 * time.Hour)
		r.settle(t)
		events, _ = r.said()
		if len(events) != 1 || !strings.Contains(events[0], "Secret system/"+Name) || !strings.Contains(events[0], "immutable: replace it") {
			t.Errorf("events are %q", events)
		}
		if wrote := c.wrote(); strings.Contains(wrote, "Secret") {
			t.Errorf("written is %s", wrote)
		}
		keys.Immutable = nil
		c.put(t, keys)
		if r.settle(t); !strings.Contains(c.wrote(), "update Secret system") {
			t.Error("it is not written when it can be")
		}
		r.quiet(t, "when both can be written")
	})
}
