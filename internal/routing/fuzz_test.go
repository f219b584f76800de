package routing

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// FuzzPolicy: whatever a Service's annotations say, a proxy can use what comes of it; of each that is not used a warning
// tells, and its default stands.
func FuzzPolicy(f *testing.F) {
	f.Add("cheese", "3", "5s")
	f.Add("a b", "101", "1h1s")
	f.Add("", "-1", "99.9ms")
	f.Add(strings.Repeat("a", 65), "0x1", "1e3s")
	f.Add("a;b=c\r\nX: y", "+1", "\xff")
	f.Fuzz(func(t *testing.T, cookie, maxFails, failTimeout string) {
		service := &corev1.Service{ObjectMeta: meta("default", "web")}
		service.Annotations = map[string]string{AnnotationAffinityCookie: cookie, AnnotationMaxFails: maxFails, AnnotationFailTimeout: failTimeout}
		b := &wire.Backend{Port: 80}
		warnings := readPolicy(service, b)
		warned := func(annotation string) bool {
			return slices.ContainsFunc(warnings, func(e Event) bool { return strings.Contains(e.Message, annotation+" is ") })
		}
		if b.MaxFails > maxMaxFails || warned(AnnotationMaxFails) && b.MaxFails != defaultMaxFails {
			t.Errorf("max-fails of %q is %d", maxFails, b.MaxFails)
		}
		if b.FailTimeout < 100 || b.FailTimeout > 3_600_000 || warned(AnnotationFailTimeout) && b.FailTimeout != defaultFailTimeout {
			t.Errorf("fail-timeout of %q is %d", failTimeout, b.FailTimeout)
		}
		used := b.Cookie != ""
		if warned(AnnotationAffinityCookie) == used || used && (b.Cookie != cookie || (&http.Cookie{Name: b.Cookie, Value: "x"}).String() == "") {
			t.Errorf("the cookie of %q is %q, warned %t", cookie, b.Cookie, warned(AnnotationAffinityCookie))
		}
		told := sentAs(t, wire.Resource{Name: "default/web:80", Backend: b})
		if refused := new(table.Table).Apply(table.Changes{Set: []wire.Resource{told}}).Refused; len(refused) > 0 {
			t.Errorf("%+v is refused: %v", b, refused)
		}
	})
}

// FuzzMerge: whatever stands in the annotation that says which entries of a status are ours, entries that it does not
// name stay as they are, and what is written asks for no other write.
func FuzzMerge(f *testing.F) {
	f.Add("192.0.2.1,lb.example", "192.0.2.1", "192.0.2.9", "192.0.2.2")
	f.Add(",,", "", "::1", "::1")
	f.Add("192.0.2.1 ,\n", "192.0.2.1", "192.0.2.1", "")
	f.Fuzz(func(t *testing.T, recorded, address, another, wanted string) {
		current := []networkingv1.IngressLoadBalancerIngress{entryOf(address), {IP: another, Hostname: "both.example"}}
		// The API server has no others: an address has no comma, and what is wanted is one.
		if strings.Contains(wanted, ",") || wanted == "" {
			wanted = "192.0.2.3"
		}
		got := merge(current, recorded, []string{wanted})
		for _, entry := range current {
			if ours := slices.Contains(strings.Split(recorded, ","), entry.IP+entry.Hostname); !ours && !slices.ContainsFunc(got.LoadBalancer, func(e networkingv1.IngressLoadBalancerIngress) bool { return sameEntry(e, entry) }) {
				t.Errorf("%+v is gone, and %q does not name it: %+v", entry, recorded, got)
			}
		}
		if diff := cmp.Diff(got, merge(got.LoadBalancer, got.Addresses, []string{wanted})); diff != "" {
			t.Errorf("a second time (-first +second):\n%s", diff)
		}
	})
}
