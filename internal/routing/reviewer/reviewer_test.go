package reviewer

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/identity"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// api is an API server with pod ingress/web-0 and its owners, that knows that pod's token.
type api struct {
	client.Client
	token string
	// fails is what it says instead of an answer to a call of that kind.
	fails string
}

// expires is when that token does, some time after the clock of a bubble begins.
var expires = time.Unix(1_000_000_000, 0)

var errAway = errors.New("secret things")

func newAPI(t *testing.T, without ...string) *api {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	set := &v1alpha1.IngressDaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ingress", Name: "web", UID: "web-uid"}}
	deployment := &appsv1.Deployment{ObjectMeta: ownedBy("deployment", set, v1alpha1.Kind)}
	replicas := &appsv1.ReplicaSet{ObjectMeta: ownedBy("replicas", deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	pod := &corev1.Pod{ObjectMeta: ownedBy("web-0", replicas, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, o := range []client.Object{set, deployment, replicas, pod} {
		if len(without) == 0 || without[0] != o.GetName() {
			builder = builder.WithObjects(o)
		}
	}
	a := &api{token: "head." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, expires.Unix())) + ".signature"}
	a.Client = builder.WithInterceptorFuncs(interceptor.Funcs{Create: a.review, Get: a.get}).Build()
	return a
}

func ownedBy(name string, owner metav1.Object, kind schema.GroupVersionKind) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "ingress", Name: name, UID: types.UID(name + "-uid"), OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)}}
}

func (a *api) review(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
	r := o.(*authenticationv1.TokenReview)
	if a.fails == "review" {
		return errAway
	}
	if r.Spec.Token == a.token {
		r.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: r.Spec.Audiences, User: authenticationv1.UserInfo{
			Username: "system:serviceaccount:ingress:default",
			Extra: map[string]authenticationv1.ExtraValue{
				"authentication.kubernetes.io/pod-name": {"web-0"}, "authentication.kubernetes.io/pod-uid": {"web-0-uid"},
			},
		}}
	}
	return nil
}

func (a *api) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if a.fails == key.Name {
		return errAway
	}
	return c.Get(ctx, key, o, options...)
}

func with(t *testing.T, token string) context.Context {
	return metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer "+token))
}

// TestIdentify: the stream of a proxy ends with its token, but not within a minute, because its end is held against
// another clock than the API server's. That these are apart is said once.
func TestIdentify(t *testing.T) {
	a := newAPI(t)
	synctest.Test(t, func(t *testing.T) {
		var said []string
		r := New(a, funcr.New(func(_, line string) { said = append(said, line) }, funcr.Options{}))
		for _, c := range []struct {
			after time.Duration
			until time.Time
		}{
			{-5 * time.Minute, expires},
			{-time.Minute, expires},
			{-time.Second, expires.Add(59 * time.Second)},
			{time.Hour, expires.Add(time.Hour + time.Minute)},
			{2 * time.Hour, expires.Add(2*time.Hour + time.Minute)},
		} {
			time.Sleep(time.Until(expires.Add(c.after)))
			got, err := r.Identify(with(t, a.token))
			want := delta.Peer{IngressDaemonSet: types.NamespacedName{Namespace: "ingress", Name: "web"}, Pod: "web-0", UID: "web-0-uid", Until: c.until}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Error(c.after, err, diff)
			}
		}
		if len(said) != 1 || !strings.Contains(said[0], "1h0m0s") {
			t.Errorf("said is %q", said)
		}
	})
}

// TestNotIdentified: who is no proxy is denied, and where that cannot be known the answer says so, and
// nothing of what the API server said.
func TestNotIdentified(t *testing.T) {
	for _, test := range []struct {
		token, without, fails string
		code                  codes.Code
		say                   string
	}{
		{"", "", "", codes.PermissionDenied, "no token"},
		{"another", "", "", codes.PermissionDenied, "not valid"},
		{"its", "web-0", "", codes.PermissionDenied, "is gone"},
		{"its", "replicas", "", codes.PermissionDenied, "no ReplicaSet"},
		{"its", "deployment", "", codes.PermissionDenied, "no Deployment"},
		{"its", "web", "", codes.PermissionDenied, "no IngressDaemonSet"},
		{"its", "", "review", codes.Unavailable, "review a token"},
		{"its", "", "web-0", codes.Unavailable, "owners"},
		{"its", "", "replicas", codes.Unavailable, "owners"},
		{"its", "", "deployment", codes.Unavailable, "owners"},
		{"its", "", "web", codes.Unavailable, "owners"},
	} {
		a := newAPI(t, test.without)
		a.fails = test.fails
		token := strings.ReplaceAll(test.token, "its", a.token)
		before := notLetIn(t, test.code)
		got, err := New(a, logr.Discard()).Identify(with(t, token))
		if n := notLetIn(t, test.code) - before; n != 1 {
			t.Errorf("%+v: counted %v times", test, n)
		}
		if status.Code(err) != test.code || !strings.Contains(err.Error(), test.say) || strings.Contains(err.Error(), errAway.Error()) || got != (delta.Peer{}) {
			t.Errorf("%+v: got %+v, %v", test, got, err)
		}
	}
	if _, err := New(newAPI(t), logr.Discard()).Identify(t.Context()); status.Code(err) != codes.PermissionDenied {
		t.Errorf("without a header: %v", err)
	}
}

// notLetIn is how many were counted.
func notLetIn(t *testing.T, code codes.Code) float64 {
	t.Helper()
	m := &dto.Metric{}
	if err := notLetInCounter.WithLabelValues(code.String()).Write(m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// TestAudience: a review is asked for the audience of proxies, and no other.
func TestAudience(t *testing.T) {
	a := newAPI(t)
	var asked []string
	a.Client = interceptor.NewClient(a.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			asked = o.(*authenticationv1.TokenReview).Spec.Audiences
			return c.Create(ctx, o, options...)
		},
	})
	if _, err := New(a, logr.Discard()).Identify(with(t, a.token)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{identity.Audience}, asked); diff != "" {
		t.Error(diff)
	}
}
