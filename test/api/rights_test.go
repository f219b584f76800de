package api

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/test/docs"
)

// tenants is the namespace in which tenants have every verb.
const tenants = "tenants"

// theController is the account of config/rbac.
const theController = "system:serviceaccount:ingress-daemonset-system:ingress-daemonset-controller"

// kind is one of those that tenants write, and a base that is accepted.
type kind struct{ resource, base string }

var (
	sets        = kind{"ingressdaemonsets", base}
	attachments = kind{"targetgroupattachments", targetGroup}
)

func (k kind) in(as *dynamic.DynamicClient) dynamic.ResourceInterface {
	return as.Resource(v1alpha1.GroupVersion.WithResource(k.resource)).Namespace(tenants)
}

func (k kind) named(name string, patches ...string) *unstructured.Unstructured {
	object := patched(k.base, patches...)
	object.SetName(name)
	return object
}

// made creates an object as the operator, until the test ends.
func (k kind) made(t *testing.T, name string, patches ...string) *unstructured.Unstructured {
	t.Helper()
	object, err := k.in(client).Create(t.Context(), k.named(name, patches...), createOptions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deleteForGood(k.in(client), name) })
	return object
}

// clear deletes all objects.
func (k kind) clear() {
	_ = k.in(client).DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{})
}

// newTenant is somebody who has every verb in the namespace, on Nodes as well.
func newTenant(t *testing.T, user string) *dynamic.DynamicClient {
	t.Helper()
	typed := kubernetes.NewForConfigOrDie(config)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenants}}
	if _, err := typed.CoreV1().Namespaces().Create(t.Context(), namespace, createOptions); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	everything := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "everything"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"", v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"}}},
	}
	if _, err := typed.RbacV1().Roles(tenants).Create(t.Context(), everything, createOptions); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "tenant-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: everything.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if _, err := typed.RbacV1().RoleBindings(tenants).Create(t.Context(), binding, createOptions); err != nil {
		t.Fatal(err)
	}
	tenant := impersonate(t, user)
	// Until the API server knows of the binding and of the policies.
	err := await.NoError(t.Context(), func() error {
		dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		if _, err := sets.in(tenant).Create(t.Context(), sets.named("probe", spec(`healthCheckNodePorts: null, serviceName: proxy`)), dryRun); err != nil {
			return err
		}
		_, err := sets.in(tenant).Create(t.Context(), sets.named("probe"), dryRun)
		return refusedWith(err, detachFor)
	})
	if err != nil {
		t.Fatal(err)
	}
	return tenant
}

func impersonate(t *testing.T, user string) *dynamic.DynamicClient {
	t.Helper()
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: user}
	return dynamic.NewForConfigOrDie(as)
}

// TestTenantsKeepWhatIsThere: what an operator has made with every right stays the tenant's
// to edit and to delete.
func TestTenantsKeepWhatIsThere(t *testing.T) {
	tenant := newTenant(t, "keeper-"+rand.Text())
	for _, c := range []struct {
		name         string
		kind         kind
		there, edits []string
	}{
		{"set", sets, []string{spec(`nodeSelector: {pool: mine}, healthCheckNodePorts: [10080, 10081]`), rolling(asksNodes + ", " + waits)}, []string{
			pod(`containers: [{name: proxy, image: "proxy:v2"}]`), spec(`podsPerNode: 3, paused: true`), rolling(`partition: 1, detachTimeoutSeconds: 900`),
			`{metadata: {labels: {a: b}, finalizers: [example.com/hold]}}`, spec(`healthCheckNodePorts: [10081]`),
			rolling(`annotateNodeToDetach: null, waitForDetachmentByAnnotatedTimestamp: null`), `{metadata: {finalizers: null}}`,
		}},
		{"of-nodes", attachments, []string{spec(onNodes + `, nodeSelector: {}, ownership: Group, ` + theRole)}, []string{
			spec(`detachFloorSeconds: 60`), `{metadata: {finalizers: [example.com/hold]}}`, spec(`ownership: Registered`), `{metadata: {finalizers: null}}`,
		}},
		{"of-pods", attachments, []string{spec(`ownership: Group, ` + theRole)}, []string{
			spec(`ingressDaemonSet: null, podSelector: {matchLabels: {a: b}}`), spec(`port: 8080`), spec(`ownership: null`),
			spec(`targetGroup: {name: another}`), spec(`assumeRole: null`),
		}},
	} {
		c.kind.made(t, c.name, c.there...)
		for _, edit := range c.edits {
			if err := patching(edit)(t.Context(), c.kind, tenant, c.name); err != nil {
				t.Errorf("%s, %s: %v", c.name, edit, err)
			}
		}
		if err := c.kind.in(tenant).Delete(t.Context(), c.name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// TestStatusIsTheControllers: by one that a tenant could write, the controller would take out
// what others have registered.
func TestStatusIsTheControllers(t *testing.T) {
	tenant, controller := newTenant(t, "writer-"+rand.Text()), impersonate(t, theController)
	for _, c := range []struct {
		kind  kind
		patch string
	}{
		{sets, `{status: {wave: [node-1], desiredNodes: 1, servingNodes: 0, degradedNodes: 0, unavailableNodes: 0, updatedNodes: 0}}`},
		{attachments, `{status: {groupCount: 1, targets: 0, healthy: 0, leaving: 0, groups: [{id: a, targets: ["i-1:80"], ` + theRole + `}]}}`},
	} {
		there := c.kind.made(t, "status")
		// It begins to count a moment after the policies that were waited for.
		err := await.NoError(t.Context(), func() error {
			_, err := c.kind.in(tenant).Patch(t.Context(), "status", types.MergePatchType, toJSON(c.patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
			return refusedWith(err, "only who may update it in all namespaces writes it")
		})
		if err != nil {
			t.Errorf("%s: %v", c.patch, err)
		}
		stored, err := there.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.kind.in(controller).UpdateStatus(t.Context(), patched(string(stored), c.patch), updateOptions); err != nil {
			t.Errorf("the controller: %v", err)
		}
	}
}

// refusedWith is nil where a policy refuses something with these words.
func refusedWith(err error, words string) error {
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") && strings.Contains(err.Error(), words) {
		return nil
	}
	return fmt.Errorf("got %v, want a refusal: %s", err, words)
}

// TestNothingIsAskedOfTheController, which has none of these rights: it writes finalizers, and
// leaves out of a spec what is empty.
func TestNothingIsAskedOfTheController(t *testing.T) {
	controller := impersonate(t, theController)
	sets.made(t, "finalized", rolling(asksNodes))
	if err := patching(`{metadata: {finalizers: [`+v1alpha1.Finalizer+`]}}`)(t.Context(), sets, controller, "finalized"); err != nil {
		t.Error(err)
	}
	stored := attachments.made(t, "finalized", spec(onNodes+`, ownership: Group, assumeRole: {arn: "arn:aws:iam::123456789012:role/a", externalID: ""},
		nodeSelector: {matchLabels: {}, matchExpressions: [{key: pool, operator: Exists, values: []}]}`))
	var typed v1alpha1.TargetGroupAttachment
	convert(t, stored, &typed)
	typed.Finalizers = []string{v1alpha1.Finalizer}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&typed)
	if err != nil {
		t.Fatal(err)
	}
	if reflect.DeepEqual(content["spec"], stored.Object["spec"]) {
		t.Fatal("nothing that is empty was left out")
	}
	if _, err := attachments.in(controller).Update(t.Context(), &unstructured.Unstructured{Object: content}, updateOptions); err != nil {
		t.Error(err)
	}
}

// TestAggregatedRoles: whoever has a role of Kubernetes in all namespaces reads our kinds,
// writes IngressDaemonSets where the role is to write, and has none of the rights that are granted by
// themselves.
func TestAggregatedRoles(t *testing.T) {
	newTenant(t, "somebody")
	for role, writes := range map[string]bool{"admin": true, "edit": true, "view": false} {
		user := role + "-" + strings.ToLower(rand.Text())
		paste(t, "kubectl create clusterrolebinding "+user+" --clusterrole="+role+" --user="+user)
		as := kubernetes.NewForConfigOrDie(config).AuthorizationV1().SubjectAccessReviews()
		may := func(verb, group, resource, subresource string) bool {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Group: group, Resource: resource, Subresource: subresource,
			}}}
			review, err := as.Create(t.Context(), review, createOptions)
			if err != nil {
				t.Fatal(err)
			}
			return review.Status.Allowed
		}
		// kube-controller-manager puts the roles together.
		if err := await.NoError(t.Context(), func() error {
			if !may("list", ours, "attachments", "") || may("create", ours, "ingressdaemonsets", "") != writes {
				return fmt.Errorf("%s does not read Attachments, or writes IngressDaemonSets: %t", role, !writes)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		for _, r := range []struct{ verb, group, resource, subresource string }{
			{"detach", "", "nodes", ""}, {"attach", "", "nodes", ""}, {"own", ours, "targetgroupattachments", ""}, {"assume", ours, "targetgroupattachments", ""},
			{"update", ours, "ingressdaemonsets", "status"}, {"update", ours, "targetgroupattachments", "status"},
			{"create", ours, "targetgroupattachments", ""}, {"create", ours, "attachments", ""}, {"patch", ours, "attachments", "status"},
		} {
			if may(r.verb, r.group, r.resource, r.subresource) {
				t.Errorf("%s may %s %s %s", role, r.verb, r.resource, r.subresource)
			}
		}
	}
}

const ours = "ingressdaemonsets.mumoshu.github.io"

// TestDocumentedGrants runs the commands of the page on security, of which nothing is to stay.
func TestDocumentedGrants(t *testing.T) {
	page, err := os.ReadFile("../../docs/concepts/security.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := docs.Commands(string(page))
	if len(commands) == 0 {
		t.Fatal("the page shows no command")
	}
	for _, command := range commands {
		paste(t, strings.ReplaceAll(command, "NAMESPACE", tenants)+" --dry-run=server")
	}
}
