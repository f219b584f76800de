package identity

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// tokenOf is a token with that payload. Its signature is the API server's affair.
func tokenOf(payload string) string {
	return "head." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".signature"
}

var token = tokenOf(`{"exp":1700000000,"aud":["any"]}`)

// review is what the API server says of the token of pod ingress/web-0.
func review(change ...func(*authenticationv1.TokenReviewStatus)) authenticationv1.TokenReviewStatus {
	r := authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{Audience}, User: authenticationv1.UserInfo{
		Username: "system:serviceaccount:ingress:proxy",
		Extra:    map[string]authenticationv1.ExtraValue{podName: {"web-0"}, podUID: {"pod-uid"}},
	}}
	for _, do := range change {
		do(&r)
	}
	return r
}

var claim = Claim{types.NamespacedName{Namespace: "ingress", Name: "web-0"}, "pod-uid", "proxy", time.Unix(1700000000, 0)}

func TestClaim(t *testing.T) {
	got, err := ClaimOf(token, review())
	if diff := cmp.Diff(claim, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestNoClaim(t *testing.T) {
	for _, test := range []struct {
		say    string
		token  string
		change func(*authenticationv1.TokenReviewStatus)
	}{
		{"not valid: expired", token, func(r *authenticationv1.TokenReviewStatus) { r.Authenticated, r.Error = false, "expired" }},
		{"audience", token, func(r *authenticationv1.TokenReviewStatus) { r.Audiences = nil }},
		{"audience", token, func(r *authenticationv1.TokenReviewStatus) { r.Audiences = []string{"https://kubernetes.default.svc"} }},
		{"no service account", token, func(r *authenticationv1.TokenReviewStatus) { r.User.Username = "system:node:n" }},
		{"no service account", token, func(r *authenticationv1.TokenReviewStatus) { r.User.Username = "system:serviceaccount:ingress" }},
		{"not bound to a pod", token, func(r *authenticationv1.TokenReviewStatus) { r.User.Extra = nil }},
		{"not bound to a pod", token, func(r *authenticationv1.TokenReviewStatus) { delete(r.User.Extra, podUID) }},
		{"not bound to a pod", token, func(r *authenticationv1.TokenReviewStatus) { r.User.Extra[podName] = []string{"a", "b"} }},
		{"not bound to a pod", token, func(r *authenticationv1.TokenReviewStatus) { r.User.Extra[podUID] = []string{""} }},
		{"no JSON Web Token", "head.*.signature", nil},
		{"when it expires", "", nil},
		{"when it expires", tokenOf(`{}`), nil},
		{"when it expires", tokenOf(`{"exp":"soon"}`), nil},
		{"when it expires", tokenOf(`{"exp":-1}`), nil},
	} {
		r := review()
		if test.change != nil {
			test.change(&r)
		}
		if got, err := ClaimOf(test.token, r); err == nil || !strings.Contains(err.Error(), test.say) {
			t.Errorf("got %+v, %v; want an error with %q", got, err, test.say)
		}
	}
}

// chain is a pod with its owners.
func chain() Objects {
	controlled := func(name, uid, kind, version, owner string) metav1.ObjectMeta {
		yes := true
		return metav1.ObjectMeta{Namespace: "ingress", Name: name, UID: types.UID(uid), OwnerReferences: []metav1.OwnerReference{
			{APIVersion: version, Kind: kind, Name: owner, UID: types.UID(owner + "-uid"), Controller: &yes},
		}}
	}
	return Objects{
		Pod:        &corev1.Pod{ObjectMeta: controlled("web-0", "pod-uid", "ReplicaSet", "apps/v1", "replicas"), Spec: corev1.PodSpec{ServiceAccountName: "proxy"}},
		ReplicaSet: &appsv1.ReplicaSet{ObjectMeta: controlled("replicas", "replicas-uid", "Deployment", "apps/v1", "deployment")},
		Deployment: &appsv1.Deployment{ObjectMeta: controlled("deployment", "deployment-uid", v1alpha1.Kind.Kind, v1alpha1.GroupVersion.String(), "web")},
		IngressDaemonSet: &v1alpha1.IngressDaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ingress", Name: "web", UID: "web-uid"},
			Spec: v1alpha1.IngressDaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{ServiceAccountName: "proxy"}}}},
	}
}

func TestVerify(t *testing.T) {
	o := chain()
	if set, err := Verify(claim, o); err != nil || set.String() != "ingress/web" {
		t.Errorf("got %s, %v", set, err)
	}
	for object, want := range map[metav1.Object]string{o.Pod: "ingress/replicas", o.ReplicaSet: "ingress/deployment", o.Deployment: "ingress/web", o.IngressDaemonSet: "/"} {
		if got := Owner(object).String(); got != want {
			t.Errorf("%s is owned by %s, want %s", object.GetName(), got, want)
		}
	}
	o.Pod.Spec.ServiceAccountName, o.IngressDaemonSet.Spec.Template.Spec.ServiceAccountName = "default", ""
	c := claim
	c.ServiceAccount = "default"
	if _, err := Verify(c, o); err != nil {
		t.Error(err)
	}
}

// TestNotVerified: whatever is missing, is another of the same name or names another is an error, and no
// IngressDaemonSet is given.
func TestNotVerified(t *testing.T) {
	for _, test := range []struct {
		say    string
		change func(*Objects)
	}{
		{"is gone", func(o *Objects) { o.Pod = nil }},
		{"is gone", func(o *Objects) { o.Pod.UID = "other" }},
		{"has ended", func(o *Objects) { o.Pod.Status.Phase = corev1.PodFailed }},
		{"has ended", func(o *Objects) { o.Pod.Status.Phase = corev1.PodSucceeded }},
		{"no ReplicaSet", func(o *Objects) { o.Pod.OwnerReferences = nil }},
		{"no ReplicaSet", func(o *Objects) { *o.Pod.OwnerReferences[0].Controller = false }},
		{"no ReplicaSet", func(o *Objects) { o.Pod.OwnerReferences[0].Kind = "StatefulSet" }},
		{"no ReplicaSet", func(o *Objects) { o.Pod.OwnerReferences[0].APIVersion = "example.com/v1" }},
		{"no ReplicaSet", func(o *Objects) { o.Pod.OwnerReferences[0].APIVersion = "a/b/c" }},
		{"no ReplicaSet", func(o *Objects) { o.ReplicaSet = nil }},
		{"no ReplicaSet", func(o *Objects) { o.ReplicaSet.UID = "other" }},
		{"no ReplicaSet", func(o *Objects) { o.ReplicaSet.UID, o.Pod.OwnerReferences[0].UID = "", "" }},
		{"no ReplicaSet", func(o *Objects) { o.ReplicaSet.Namespace = "other" }},
		{"no Deployment", func(o *Objects) { o.Deployment = nil }},
		{"no Deployment", func(o *Objects) { o.Deployment.UID = "other" }},
		{"no Deployment", func(o *Objects) { o.ReplicaSet.OwnerReferences = nil }},
		{"no IngressDaemonSet", func(o *Objects) { o.IngressDaemonSet = nil }},
		{"no IngressDaemonSet", func(o *Objects) { o.IngressDaemonSet.UID = "other" }},
		{"no IngressDaemonSet", func(o *Objects) { o.Deployment.OwnerReferences[0].APIVersion = "apps/v1" }},
		{"service account", func(o *Objects) { o.IngressDaemonSet.Spec.Template.Spec.ServiceAccountName = "other" }},
		{"service account", func(o *Objects) { o.Pod.Spec.ServiceAccountName = "other" }},
	} {
		o := chain()
		test.change(&o)
		if set, err := Verify(claim, o); err == nil || !strings.Contains(err.Error(), test.say) || set.Name != "" {
			t.Errorf("got %s, %v; want an error with %q", set, err, test.say)
		}
	}
	stolen := claim
	stolen.ServiceAccount = "other"
	if set, err := Verify(stolen, chain()); err == nil {
		t.Errorf("a token of another service account is taken for one of %s", set)
	}
}
