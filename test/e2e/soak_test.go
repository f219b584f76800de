package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/selfsigned"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	soaking = 10 * time.Minute
	// sampled is how often memory and goroutines are looked at.
	sampled = 10 * time.Second
	// soakMetrics is where the only proxy of each node tells them.
	soakMetrics = "9081"
)

// TestSoakIngress changes routes, endpoints and certificates for ten minutes, under traffic: no request is lost, and
// neither memory nor goroutines of proxies and controllers grow.
func TestSoakIngress(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), soaking+2*patient)
	defer cancel()
	if err := pushBackend(ctx); err != nil {
		t.Fatal(err)
	}
	fleet := scenario{example: "proxy.yaml", others: ownClass, adjust: alone}.open(ctx, t)
	namespace, backend := fleet.Key.Namespace, endings[0]
	secured := securedIngress(namespace, backend.name)
	if err := create(ctx, append(backend.objects(namespace), certificate(t, namespace), secured)...); err != nil {
		t.Fatal(err)
	}
	if err := waitScaled(ctx, client.ObjectKey{Namespace: namespace, Name: backend.name}, most); err != nil {
		t.Fatal(err)
	}
	for _, node := range fleet.Nodes() {
		if err := harness.Wait(ctx, "a certificate at "+node.Name(), func() (bool, error) { return true, shake(ctx, node.IP()) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := waitControllers(ctx); err != nil {
		t.Fatal(err)
	}
	_, stop := sending(ctx, t, fleet.Nodes(), proxyPort, harness.Request{Method: "GET", Host: backend.name}, harness.Request{Method: "POST", Host: backend.name})
	soak, end := context.WithTimeout(ctx, soaking)
	defer end()
	var all sync.WaitGroup
	var changes, handshakes atomic.Int64
	repeat := func(every time.Duration, do func(n int) error) {
		all.Go(func() {
			for n := 0; soak.Err() == nil; n++ {
				if err := do(n); err != nil && soak.Err() == nil {
					t.Error(err)
					return
				}
				changes.Add(1)
				select {
				case <-soak.Done():
				case <-time.After(every):
				}
			}
		})
	}
	repeat(200*time.Millisecond, func(n int) error { return changeRoute(soak, namespace, backend.name, n) })
	repeat(5*time.Second, func(n int) error {
		return scaleTo(soak, client.ObjectKey{Namespace: namespace, Name: backend.name}, []int32{4, most}[n%2])
	})
	repeat(2*time.Second, func(int) error { return theHarness.Update(soak, certificate(t, namespace)) })
	repeat(20*time.Millisecond, func(n int) error {
		handshakes.Add(1)
		return shake(soak, fleet.Nodes()[n%nodes].IP())
	})
	samples := map[string][]sample{}
	repeat(sampled, func(int) error { return look(soak, fleet, samples) })
	all.Wait()
	report := stop()
	losesNothing(t, report)
	t.Logf("%d changes, %d handshakes of TLS, %.0f requests a second", changes.Load()-handshakes.Load(), handshakes.Load(), report.Rate)
	isFlat(t, samples)
}

// alone has one proxy on a node, which tells of itself.
func alone(set *v1alpha1.IngressDaemonSet) { set.Spec.PodsPerNode = new(int32(1)) }

const securedHost = "secured.example.com"

func certificate(t *testing.T, namespace string) *corev1.Secret {
	made := selfsigned.For(t, securedHost)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "secured"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: made.Chain, corev1.TLSPrivateKeyKey: made.Key},
	}
}

func securedIngress(namespace, service string) *networkingv1.Ingress {
	out := served(namespace, service)[1].(*networkingv1.Ingress)
	out.Name, out.Spec.Rules[0].Host = "secured", securedHost
	out.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{securedHost}, SecretName: "secured"}}
	return out
}

// shake opens a connection of TLS, and closes it.
func shake(ctx context.Context, ip string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := theHarness.DialContext(ctx, "tcp", net.JoinHostPort(ip, "443"))
	if err != nil {
		return err
	}
	defer conn.Close()
	// It signs itself, and another one is there each time.
	secured := tls.Client(conn, &tls.Config{ServerName: securedHost, InsecureSkipVerify: true})
	if err := secured.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS with %s: %w", ip, err)
	}
	return secured.ConnectionState().PeerCertificates[0].VerifyHostname(securedHost)
}

// changeRoute creates an Ingress, changes its path, and deletes it, of many in turn.
func changeRoute(ctx context.Context, namespace, service string, n int) error {
	out := served(namespace, service)[1].(*networkingv1.Ingress)
	out.Name = fmt.Sprintf("churn-%d", n/3%50)
	out.Spec.Rules[0].Host = out.Name + ".example.com"
	switch n % 3 {
	case 0:
		return theHarness.Create(ctx, out)
	case 1:
		return theHarness.Patch(ctx, out, client.RawPatch("application/json-patch+json", []byte(`[{"op":"replace","path":"/spec/rules/0/http/paths/0/path","value":"/changed"}]`)))
	}
	return theHarness.Delete(ctx, out)
}

// sample is how much memory a process has in bytes, and how many goroutines.
type sample struct{ memory, goroutines float64 }

// look adds a sample of each proxy and each controller. One that was begun anew is another.
func look(ctx context.Context, fleet *harness.Fleet, samples map[string][]sample) error {
	addresses := map[string]string{}
	for _, node := range fleet.Nodes() {
		addresses["proxy of "+node.Name()] = net.JoinHostPort(node.IP(), soakMetrics)
	}
	controllers := &corev1.PodList{}
	if err := theHarness.List(ctx, controllers, client.InNamespace(harness.Namespace)); err != nil {
		return err
	}
	for _, pod := range controllers.Items {
		if strings.HasPrefix(pod.Name, "ingress-daemonset-controller") && pod.DeletionTimestamp == nil {
			addresses[pod.Name] = net.JoinHostPort(pod.Status.PodIP, "8080")
		}
	}
	for name, address := range addresses {
		text, err := get(ctx, address, "", "/metrics")
		if err != nil {
			return fmt.Errorf("asking %s: %w", name, err)
		}
		memory, err := metric(text, "process_resident_memory_bytes")
		goroutines, err2 := metric(text, "go_goroutines")
		if err := errors.Join(err, err2); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		samples[name] = append(samples[name], sample{memory, goroutines})
	}
	return nil
}

func metric(text, name string) (float64, error) {
	found := regexp.MustCompile(`(?m)^` + name + `(?:\{[^}]*\})? (\S+)$`).FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("no metric %s", name)
	}
	return strconv.ParseFloat(found[1], 64)
}

// isFlat compares the second quarter with the last: the first is that in which all gets as much as it needs.
func isFlat(t *testing.T, samples map[string][]sample) {
	t.Helper()
	for name, all := range samples {
		quarter := len(all) / 4
		if quarter < 3 {
			t.Errorf("%s was looked at %d times", name, len(all))
			continue
		}
		before, after := mean(all[quarter:2*quarter]), mean(all[len(all)-quarter:])
		t.Logf("%s: %.1f MB and %.0f goroutines, then %.1f MB and %.0f", name, before.memory/1e6, before.goroutines, after.memory/1e6, after.goroutines)
		if after.memory > 1.1*before.memory || after.goroutines > 1.1*before.goroutines+10 {
			t.Errorf("%s grows", name)
		}
	}
}

func mean(all []sample) (m sample) {
	for _, s := range all {
		m.memory += s.memory / float64(len(all))
		m.goroutines += s.goroutines / float64(len(all))
	}
	return m
}
