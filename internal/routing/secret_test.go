package routing

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/selfsigned"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fill makes what a Secret's stringData says: hosts of its certificate, and what is wrong with it
// (malformed, mismatched, expired).
func fill(t testing.TB, s *corev1.Secret) {
	t.Helper()
	wrong := s.StringData["wrong"]
	end := noon.Add(24 * time.Hour)
	if wrong == "expired" {
		end = noon.Add(-time.Hour)
	}
	made := selfsigned.Until(t, end, strings.Fields(s.StringData["hosts"])...)
	chain, key := made.Chain, made.Key
	switch wrong {
	case "malformed":
		chain = []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	case "mismatched":
		key = selfsigned.Until(t, end, "another.example").Key
	}
	s.Data = map[string][]byte{corev1.TLSCertKey: chain, corev1.TLSPrivateKeyKey: key}
}

func dnsNames(t testing.TB, c *wire.Certificate) []string {
	t.Helper()
	leaf, err := parseCertificate(*c)
	if err != nil {
		t.Fatal(err)
	}
	return leaf.DNSNames
}

// TestSecretsOfAClass: proxies are told the certificates that a listener of their own class names, and no other.
func TestSecretsOfAClass(t *testing.T) {
	m := newModel(Options{})
	for namespace, set := range map[string]string{"default": "proxy", "other": "other"} {
		m.set(&IngressDaemonSet{ObjectMeta: meta("ingress", set)})
		m.set(classFor(set, set))
		s := &corev1.Secret{ObjectMeta: meta(namespace, "key"), StringData: map[string]string{"hosts": "web.example"}}
		fill(t, s)
		m.set(s)
		in := ingressFor(namespace, "web", set, "web.example", "web")
		in.Spec.TLS = tlsOf("key", "web.example")
		m.set(in)
	}
	m.compile(noon)
	for set, want := range map[string]string{"proxy": "default/key", "other": "other/key"} {
		n := types.NamespacedName{Namespace: "ingress", Name: set}
		told := slices.DeleteFunc(m.Resources(n), func(r wire.Resource) bool { return r.Certificate == nil })
		if got := names(told); !slices.Equal(got, []string{want}) {
			t.Errorf("the proxies of %s are told the certificates %v, and not %s alone", n, got, want)
		}
	}
}

// TestDefaultCertificate: each IngressDaemonSet that serves Ingresses has it, and presents it before none.
func TestDefaultCertificate(t *testing.T) {
	m := newModel(Options{DefaultCertificate: types.NamespacedName{Namespace: "ingress", Name: "default"}})
	m.set(&IngressDaemonSet{ObjectMeta: meta("ingress", "proxy")})
	m.set(&IngressDaemonSet{ObjectMeta: meta("ingress", "idle")})
	m.set(classFor("ids", "proxy"))
	s := &corev1.Secret{ObjectMeta: meta("ingress", "default"), StringData: map[string]string{"hosts": "*.example"}}
	fill(t, s)
	m.set(s)
	m.compile(noon)
	var presented []string
	told := false
	for _, r := range m.Resources(proxySet) {
		if told = told || r.Certificate != nil && r.Name == "ingress/default"; r.Listener != nil && r.Listener.TLS {
			presented = r.Listener.Certificates
		}
	}
	if !told || !slices.Equal(presented, []string{"ingress/default", ""}) {
		t.Errorf("it is %v that proxies are told it, and presented are %q", told, presented)
	}
	if idle := m.Resources(types.NamespacedName{Namespace: "ingress", Name: "idle"}); len(idle) > 0 {
		t.Errorf("proxies that serve no Ingress are told %v", names(idle))
	}
}

// TestWaitsForSecrets publishes nothing that needs a Secret that nobody answered for, and leaves what
// was published as it was.
func TestWaitsForSecrets(t *testing.T) {
	c := New(Options{})
	c.Set(&IngressDaemonSet{ObjectMeta: meta("ingress", "proxy")})
	c.Set(classFor("ids", "proxy"))
	c.Set(serviceAt("default", "web", 80))
	in := ingressFor("default", "web", "ids", "web.example", "web")
	c.Set(in)
	c.Compile(noon)
	if got := names(c.Resources(proxySet)); len(got) != 5 {
		t.Fatalf("published are %v", got)
	}
	other := in.DeepCopy()
	other.Spec.Rules[0].Host = "other.example"
	other.Spec.TLS = tlsOf("key", "other.example")
	c.Set(other)
	if r := c.Compile(noon); len(r.Changes) != 0 {
		t.Errorf("without an answer there are changes: %+v", r.Changes)
	}
	if got := c.UnansweredSecrets(); len(got) != 1 || got[0].Name != "key" {
		t.Errorf("unanswered are %v", got)
	}
	c.Delete(Ref{"Secret", "default", "key"})
	r := c.Compile(noon)
	if len(r.Changes) != 1 || len(r.Events) != 1 || !strings.Contains(r.Events[0].Message, "does not exist") {
		t.Errorf("answered, there are %+v and %v", r.Changes, r.Events)
	}
	c.Delete(Ref{"Ingress", "default", "web"})
	c.Compile(noon)
	if got := c.WantedSecrets(); len(got) != 0 {
		t.Errorf("nobody names one, and wanted are %v", got)
	}
}

// TestExpiry warns when the time has come, though nothing changed.
func TestExpiry(t *testing.T) {
	m := newModel(Options{})
	m.set(&IngressDaemonSet{ObjectMeta: meta("ingress", "proxy")})
	m.set(classFor("ids", "proxy"))
	s := &corev1.Secret{ObjectMeta: meta("default", "key"), StringData: map[string]string{"hosts": "web.example"}}
	fill(t, s)
	m.set(s)
	in := ingressFor("default", "web", "ids", "web.example", "web")
	in.Spec.TLS = tlsOf("key", "web.example")
	m.set(in)
	r := m.compile(noon)
	if want := noon.Add(24*time.Hour + time.Second); !r.WakeAt.Equal(want) {
		t.Errorf("it wakes at %s, not %s", r.WakeAt, want)
	}
	r = m.compile(r.WakeAt)
	if len(r.Events) != 1 || r.Events[0].Reason != ReasonCertificateExpired {
		t.Errorf("events are %v", r.Events)
	}
	if !r.WakeAt.IsZero() {
		t.Errorf("it wakes again at %s", r.WakeAt)
	}
}

// TestUnreadable: what needs a Secret that nobody may read waits for it no more, and listeners name its
// certificate, so that proxies that have it keep it. When it can be read, it is told.
func TestUnreadable(t *testing.T) {
	m := newModel(Options{DefaultCertificate: types.NamespacedName{Namespace: "ingress", Name: "default"}})
	m.set(&IngressDaemonSet{ObjectMeta: meta("ingress", "proxy")})
	m.set(classFor("ids", "proxy"))
	m.set(serviceAt("default", "web", 80))
	in := ingressFor("default", "web", "ids", "web.example", "web")
	in.Spec.TLS = tlsOf("key", "web.example")
	m.set(in)
	n := types.NamespacedName{Namespace: "default", Name: "key"}
	m.refuse(n)
	m.refuse(m.options.DefaultCertificate)
	m.compile(noon)
	named := func() []string {
		for _, r := range m.Resources(proxySet) {
			if r.Listener != nil && r.Listener.TLS {
				return r.Listener.Certificates
			}
		}
		return nil
	}
	if got := names(m.Resources(proxySet)); len(got) != 5 || !slices.Equal(named(), []string{"ingress/default", "", "default/key"}) {
		t.Errorf("unread, published are %v, and named certificates %v", got, named())
	}
	if w := m.Warnings(); len(w) != 2 || !strings.Contains(w[0].Message, "Secret default/key cannot be read (forbidden)") || !strings.Contains(w[0].Message, "from before") {
		t.Errorf("warnings are %v", w)
	}
	s := &corev1.Secret{ObjectMeta: meta("default", "key"), StringData: map[string]string{"hosts": "web.example"}}
	fill(t, s)
	m.set(s)
	if r := m.compile(noon); len(r.Changes) != 1 || len(r.Changes[0].Changed) != 1 || r.Changes[0].Changed[0].Certificate == nil {
		t.Errorf("when it is read, changes are %+v", r.Changes)
	}
	if got := m.Warnings(); len(got) != 1 {
		t.Errorf("when it is read, warnings are %v", got)
	}
	m.refuse(n)
	m.compile(noon)
	if w := m.Warnings(); len(w) != 2 || !strings.Contains(w[0].Message, "last good certificate") {
		t.Errorf("unread again, warnings are %v", w)
	}
	m.delete(Ref{"Secret", "ingress", "default"})
	m.compile(noon)
	if !slices.Equal(named(), []string{"ingress/default", "", "default/key"}) {
		t.Errorf("where the default one is gone, named certificates are %v", named())
	}
}

// TestLongSecret: one that is longer than a certificate can be is none, and an event names it.
func TestLongSecret(t *testing.T) {
	m := newModel(Options{})
	m.set(&IngressDaemonSet{ObjectMeta: meta("ingress", "proxy")})
	m.set(classFor("ids", "proxy"))
	in := ingressFor("default", "web", "ids", "web.example", "web")
	in.Spec.TLS = tlsOf("key", "web.example")
	m.set(in)
	long := &corev1.Secret{ObjectMeta: meta("default", "key"), StringData: map[string]string{"hosts": "web.example"}}
	fill(t, long)
	short := long.DeepCopy()
	long.Data[corev1.TLSCertKey] = append(long.Data[corev1.TLSCertKey], make([]byte, maxCertificate)...)
	m.set(long)
	r := m.compile(noon)
	if !slices.ContainsFunc(r.Events, func(e Event) bool {
		return strings.Contains(e.Message, "Secret default/key has") && strings.Contains(e.Message, "more than 65536")
	}) {
		t.Errorf("events are %v", r.Events)
	}
	if got := names(m.Resources(proxySet)); slices.ContainsFunc(got, func(name string) bool { return strings.Contains(name, "default/key") }) {
		t.Errorf("published are %v", got)
	}
	m.set(short)
	if r := m.compile(noon); len(r.Changes) != 1 || r.Changes[0].Changed[0].Certificate == nil {
		t.Errorf("when it is shorter, changes are %+v", r.Changes)
	}
}

// TestNamesOfCertificates: a namespace that names more certificates than a listener has room for takes none from
// another, whose Ingresses are younger, and the listener stays short enough to be told.
func TestNamesOfCertificates(t *testing.T) {
	m := newModel(Options{})
	m.set(&IngressDaemonSet{ObjectMeta: meta("ingress", "proxy")})
	m.set(classFor("ids", "proxy"))
	greedy := ingressFor("greedy", "web", "ids", "web.example", "web")
	for i := range 4000 {
		greedy.Spec.TLS = append(greedy.Spec.TLS, tlsOf(fmt.Sprintf("%0250d", i), "web.example")...)
	}
	modest := ingressFor("modest", "web", "ids", "other.example", "web")
	modest.CreationTimestamp = metav1.NewTime(noon)
	modest.Spec.TLS = tlsOf("key", "other.example")
	m.set(greedy)
	m.set(modest)
	m.compile(noon)
	for _, r := range m.Resources(proxySet) {
		if r.Listener == nil || !r.Listener.TLS {
			continue
		}
		if _, err := wire.Encode(r); err != nil {
			t.Error(err)
		}
		if n := len(r.Listener.Certificates); n < 1500 || n > 2500 || r.Listener.Certificates[n-1] != "modest/key" {
			t.Errorf("%d are named, at last %q", n, r.Listener.Certificates[n-1])
		}
	}
	left := 0
	for _, w := range m.Warnings() {
		if strings.Contains(w.Message, "is not presented") {
			left++
		}
	}
	if left < 1500 {
		t.Errorf("of %d it is said that they are left out", left)
	}
}
