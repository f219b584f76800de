package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Where the proxies of a second instance, and those of nginx, are reached on each node.
const (
	insidePort = 30081
	nginxPort  = 30080
)

// beside has beside proxies a second instance with a class of its own, and nginx with one that is nobody's here: each
// serves its own Ingresses, and no others.
func beside(ctx context.Context, t *testing.T, fleet *harness.Fleet) {
	inside := scenario{example: "proxy-internal.yaml", others: ownClass}.apply(ctx, t)
	nginx := scenario{example: "nodeport.yaml", adjust: func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.HealthCheckNodePorts = []int32{10082}
	}}.apply(ctx, t)
	const name, foreign = "inside", "foreign"
	outside := endings[0].name
	objects := append(served(inside.Key.Namespace, name), (ending{name: name}).pods(inside.Key.Namespace, name, 1))
	class := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: nginx.Key.Namespace}, Spec: networkingv1.IngressClassSpec{Controller: "nginx.example/ingress"}}
	if err := create(ctx, append(append(objects, served(nginx.Key.Namespace, foreign)...), class)...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.IgnoreNotFound(theHarness.Delete(context.WithoutCancel(ctx), class)) })
	if err := errors.Join(inside.WaitServing(ctx), nginx.WaitServing(ctx)); err != nil {
		t.Fatal(err)
	}
	for _, node := range fleet.Nodes() {
		for _, test := range []struct {
			port int
			host string
			want string
		}{
			{80, outside, "ok\n"}, {insidePort, name, "ok\n"}, {nginxPort, foreign, "ok\n"},
			{80, name, "404"}, {insidePort, outside, "404"}, {80, foreign, "404"}, {insidePort, foreign, "404"},
		} {
			var said string
			err := harness.Wait(ctx, fmt.Sprintf("%s:%d to answer %q for %s", node.Name(), test.port, test.want, test.host), func() (bool, error) {
				body, err := get(ctx, net.JoinHostPort(node.IP(), fmt.Sprint(test.port)), test.host, "/")
				said = body
				if err != nil {
					said = err.Error()[:min(3, len(err.Error()))]
				}
				return said == test.want, nil
			})
			if err != nil {
				t.Errorf("%v: it says %q", err, said)
			}
		}
	}
}
