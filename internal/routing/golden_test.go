package routing

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write testdata/*.out.yaml anew")

// TestGolden compiles testdata/NAME.in.yaml, step by step, into NAME.out.yaml: what is new after each
// step. What base.yaml has is there before. A document of kind Step begins the next step, one of kind
// Delete names an object that goes. A Secret's stringData says for which hosts its certificate is, and
// what is wrong with it.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(files) < 15 {
		t.Fatalf("there are %d cases: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".in.yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, *update, strings.Replace(file, ".in.yaml", ".out.yaml", 1), played(t, string(text)))
		})
	}
}

// played is what the steps of a case come to.
func played(t *testing.T, text string) string {
	var out strings.Builder
	play(t, text, func(step int, r Result) { fmt.Fprintf(&out, "# Step %d\n%s", step, readable(t, r)) })
	return out.String()
}

// play applies the steps of a case, and says what is new after each.
func play(t *testing.T, text string, say func(step int, r Result)) *model {
	m := newModel(Options{GatewayAddresses: fewAddresses})
	base, err := os.ReadFile("testdata/base.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(base), "\n---\n") {
		m.apply(t, document)
	}
	m.compile(noon)
	for i, step := range strings.Split(text, "\n---\nkind: Step\n") {
		for _, document := range strings.Split(step, "\n---\n") {
			if strings.TrimSpace(document) != "" {
				m.apply(t, document)
			}
		}
		say(i+1, m.compile(noon))
	}
	return m
}

// fewAddresses are those that Gateways may have.
var fewAddresses = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/30")}

// noon is when cases are compiled.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// model is a compiler and what answers for Secrets.
type model struct {
	*Compiler
	secrets map[types.NamespacedName]*corev1.Secret
	// unread are those that nobody may read.
	unread map[types.NamespacedName]bool
	// statuses are those that results said are to be written.
	statuses map[Ref]Status
}

func newModel(o Options) *model {
	return &model{New(o), map[types.NamespacedName]*corev1.Secret{}, map[types.NamespacedName]bool{}, map[Ref]Status{}}
}

func (m *model) set(object metav1.Object) {
	if s, ok := object.(*corev1.Secret); ok {
		n := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
		m.secrets[n] = s
		delete(m.unread, n)
	}
	m.Set(object)
}

func (m *model) delete(ref Ref) {
	if ref.Kind == "Secret" {
		n := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		delete(m.secrets, n)
		delete(m.unread, n)
	}
	m.Delete(ref)
}

// refuse lets nobody read a Secret until it is set or deleted.
func (m *model) refuse(n types.NamespacedName) {
	m.unread[n] = true
	m.Unreadable(n, "forbidden")
}

// compile compiles until every Secret that is wanted was answered for.
func (m *model) compile(now time.Time) (out Result) {
	for {
		r := m.Compile(now)
		out.Changes = append(out.Changes, r.Changes...)
		out.Statuses = append(out.Statuses, r.Statuses...)
		out.Events = append(out.Events, r.Events...)
		for _, s := range r.Statuses {
			m.statuses[s.Object] = s
		}
		for _, ref := range r.Settled {
			delete(m.statuses, ref)
		}
		out.WakeAt = r.WakeAt
		unanswered := m.UnansweredSecrets()
		if len(unanswered) == 0 {
			return out
		}
		for _, n := range unanswered {
			switch s := m.secrets[n]; {
			case m.unread[n]:
				m.Unreadable(n, "forbidden")
			case s != nil:
				m.Set(s)
			default:
				m.Delete(Ref{"Secret", n.Namespace, n.Name})
			}
		}
	}
}

func (m *model) apply(t *testing.T, document string) {
	t.Helper()
	var head struct {
		Kind string
		Of   Ref
	}
	if err := yaml.Unmarshal([]byte(document), &head); err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
	if head.Kind == "Delete" {
		m.delete(head.Of)
		return
	}
	object := objectOfKind(t, head.Kind)
	if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
	if s, ok := object.(*corev1.Secret); ok {
		fill(t, s)
	}
	m.set(object)
}

func objectOfKind(t *testing.T, kind string) metav1.Object {
	t.Helper()
	switch kind {
	case "IngressClass":
		return &networkingv1.IngressClass{}
	case "Ingress":
		return &networkingv1.Ingress{}
	case "Service":
		return &corev1.Service{}
	case "EndpointSlice":
		return &discoveryv1.EndpointSlice{}
	case "Secret":
		return &corev1.Secret{}
	case "Namespace":
		return &corev1.Namespace{}
	case "Deployment":
		return &appsv1.Deployment{}
	case "Node":
		return &corev1.Node{}
	case "IngressDaemonSet":
		return &IngressDaemonSet{}
	case "GatewayClass":
		return &gatewayv1.GatewayClass{}
	case "Gateway":
		return &gatewayv1.Gateway{}
	case "HTTPRoute":
		return &gatewayv1.HTTPRoute{}
	case "ReferenceGrant":
		return &gatewayv1.ReferenceGrant{}
	}
	t.Fatalf("there is no kind %q", kind)
	return nil
}

// readable is a result as YAML, without what is empty.
func readable(t *testing.T, r Result) string {
	t.Helper()
	out := map[string]any{}
	for _, change := range r.Changes {
		set := change.IngressDaemonSet.String()
		for _, resource := range change.Changed {
			into(out, set, "changed", plain(t, resource))
		}
		for _, name := range change.Removed {
			into(out, set, "removed", fmt.Sprintf("%s %s", kindNames[name.Kind], name.Name))
		}
	}
	for _, s := range r.Statuses {
		status := plain(t, s).(map[string]any)
		status["object"] = s.Object.String()
		out["statuses"] = append(listIn(out, "statuses"), status)
	}
	for _, e := range r.Events {
		out["events"] = append(listIn(out, "events"), fmt.Sprintf("%s: %s: %s", e.Object, e.Reason, e.Message))
	}
	text, err := yaml.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func into(out map[string]any, set, what string, v any) {
	of, _ := out[set].(map[string]any)
	if of == nil {
		of = map[string]any{}
		out[set] = of
	}
	of[what] = append(listIn(of, what), v)
}

func listIn(of map[string]any, what string) []any {
	list, _ := of[what].([]any)
	return list
}

var kindNames = map[wire.Kind]string{
	wire.KindCertificate: "Certificate", wire.KindEndpoints: "Endpoints", wire.KindBackend: "Backend", wire.KindListener: "Listener", wire.KindRoute: "Route",
}

// plain is a value without what is empty, and with names for numbers.
func plain(t *testing.T, v any) any {
	t.Helper()
	if r, ok := v.(wire.Resource); ok && r.Certificate != nil {
		return map[string]any{"name": r.Name, "certificate": "for " + strings.Join(dnsNames(t, r.Certificate), ", ")}
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var parsed any
	if err := json.Unmarshal(text, &parsed); err != nil {
		t.Fatal(err)
	}
	if out := pruned("", parsed); out != nil {
		return out
	}
	return map[string]any{}
}

// numbers are what some numbers mean.
var numbers = map[string]map[float64]string{
	"PathType": {float64(wire.Prefix): "Prefix", float64(wire.Exact): "Exact"},
	"State":    {float64(wire.Terminating): "Terminating", float64(wire.Unknown): "Unknown"},
	"Kind":     {1: "RequestHeaders", 2: "ResponseHeaders", 3: "Redirect", 4: "Rewrite"},
}

func pruned(name string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		if v["Type"] != nil && v["Reason"] != nil {
			return strings.TrimSuffix(fmt.Sprintf("%s=%s %s: %s", v["Type"], v["Status"], v["Reason"], v["Message"]), ": ")
		}
		out := map[string]any{}
		for field, inner := range v {
			if kept := pruned(field, inner); kept != nil {
				out[fieldName(field)] = kept
			}
		}
		if len(out) > 0 || name == "Endpoints" {
			return out
		}
	case []any:
		if name == "Features" {
			return fmt.Sprintf("all %d", len(v))
		}
		var out []any
		for _, inner := range v {
			if kept := pruned("", inner); kept != nil {
				out = append(out, kept)
			} else {
				out = append(out, "")
			}
		}
		if len(out) > 0 {
			return out
		}
	case float64:
		if meaning, means := numbers[name][v]; means {
			return meaning
		}
		if v != 0 {
			return v
		}
	case string:
		if v != "" {
			return v
		}
	case bool:
		if v {
			return v
		}
	}
	return nil
}

// fieldName begins with a lower-case word.
func fieldName(field string) string {
	switch field {
	case "UID", "TLS", "URL":
		return strings.ToLower(field)
	case "HTTPRoute":
		return "httpRoute"
	}
	return strings.ToLower(field[:1]) + field[1:]
}

// names are those of resources, for tests that look for one.
func names(all []wire.Resource) (out []string) {
	for _, r := range all {
		out = append(out, r.Name)
	}
	slices.Sort(out)
	return out
}
