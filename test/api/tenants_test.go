package api

import (
	"context"
	"crypto/rand"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
)

// way is one by which a tenant tries to reach beyond a namespace.
type way struct {
	name string
	kind kind
	// there is what an operator has made before, as patches of the kind's base; nil for nothing.
	there []string
	take  attemptBy
	// needs is what the refusal says.
	needs string
}

// attemptBy is what somebody does to the object of a name.
type attemptBy func(ctx context.Context, k kind, as *dynamic.DynamicClient, name string) error

const (
	asksNodes   = `annotateNodeToDetach: {key: node-detacher.variant.run/detached, value: a}`
	asksOthers  = `annotateNodeToDetach: {key: example.com/out, value: a}`
	asksAsOther = `annotateNodeToDetach: {key: node-detacher.variant.run/detached, value: b}`
	waits       = `waitForDetachmentByAnnotatedTimestamp: {key: node-detacher.variant.run/detachment-timestamp}`
	waitsElse   = `waitForDetachmentByAnnotatedTimestamp: {key: example.com/out-at}`
	noPorts     = `healthCheckNodePorts: null`
	tolerates   = `[{key: dedicated, operator: Exists}]`
	onNodes     = `ingressDaemonSet: null, targetType: instance, port: 30080`
	aGroup      = "arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/web/73e2d6bc24d8a06"
	theRole     = `assumeRole: {arn: "arn:aws:iam::123456789012:role/team/ingress"}`
	otherRole   = `assumeRole: {arn: "arn:aws:iam::123456789012:role/admin"}`
	otherID     = `assumeRole: {arn: "arn:aws:iam::123456789012:role/team/ingress", externalID: b}`
	oddRole     = `assumeRole: {arn: "arn:aws:iam::123456789012:role/it's$(exit)50%/a"}`

	detachFor = "the verb detach on nodes, for "
	attachFor = "the verb attach on nodes, "
	ownFor    = "the verb own on targetgroupattachments, "
	assumeFor = "the verb assume on targetgroupattachments, by the name "
	beside    = " beside annotateNodeToDetach"
	chosen    = detachFor + "the choice of nodes" + beside + " or healthCheckNodePorts;"
)

// ways are those that admission closes. One that is taken on an object which the operator made
// is one on top of what the operator has granted with it.
var ways = []way{
	{"annotate Nodes", sets, nil, creating(spec(noPorts), rolling(asksNodes)), detachFor + "annotateNodeToDetach;"},
	{"annotate Nodes under a name that is generated", sets, nil, generating(spec(noPorts), rolling(asksNodes)), detachFor + "annotateNodeToDetach;"},
	{"annotate Nodes from now on", sets, []string{}, patching(rolling(asksNodes)), detachFor + "annotateNodeToDetach;"},
	{"another key", sets, []string{rolling(asksNodes)}, patching(rolling(asksOthers)), detachFor + "annotateNodeToDetach;"},
	{"another value", sets, []string{rolling(asksNodes)}, patching(rolling(asksAsOther)), detachFor + "annotateNodeToDetach;"},
	{"another key by JSON patch", sets, []string{rolling(asksNodes)},
		patchingJSON(`[{"op":"replace","path":"/spec/updateStrategy/rollingUpdate/annotateNodeToDetach/key","value":"example.com/out"}]`), detachFor + "annotateNodeToDetach;"},
	{"another object in its place", sets, []string{}, replacing(rolling(asksNodes)), detachFor + "annotateNodeToDetach;"},
	{"server-side apply", sets, []string{}, applying(rolling(asksNodes)), detachFor + "annotateNodeToDetach;"},
	{"delete and create", sets, []string{rolling(asksNodes)}, recreating(rolling(asksNodes)), detachFor + "annotateNodeToDetach, healthCheckNodePorts;"},
	{"drop the annotation and add it again", sets, []string{rolling(asksNodes)},
		patching(rolling(`annotateNodeToDetach: null`), rolling(asksNodes)), detachFor + "annotateNodeToDetach;"},
	{"believe another timestamp", sets, []string{rolling(asksNodes + ", " + waits)}, patching(rolling(waitsElse)), detachFor + "waitForDetachmentByAnnotatedTimestamp;"},
	{"more nodes at a time", sets, []string{rolling(asksNodes)}, patching(rolling(`maxUnavailableNodes: 100%`)), detachFor + "maxUnavailableNodes or minServingNodes" + beside + ";"},
	{"no minimum", sets, []string{rolling(asksNodes)}, patching(rolling(`minServingNodes: 0`)), detachFor + "maxUnavailableNodes or minServingNodes" + beside + ";"},
	{"all nodes", sets, []string{spec(`nodeSelector: {pool: mine}, ` + noPorts), rolling(asksNodes)}, patching(spec(`nodeSelector: null`)), chosen},

	{"a port", sets, nil, creating(), detachFor + "healthCheckNodePorts;"},
	{"a port beside another", sets, []string{}, patching(spec(`healthCheckNodePorts: [10080, 10081]`)), detachFor + "healthCheckNodePorts;"},
	{"another port", sets, []string{}, patching(spec(`healthCheckNodePorts: [10081]`)), detachFor + "healthCheckNodePorts;"},
	{"drop the port and add it again", sets, []string{}, patching(spec(`healthCheckNodePorts: []`), spec(`healthCheckNodePorts: [10080]`)), detachFor + "healthCheckNodePorts;"},
	{"the port on all nodes", sets, []string{pod(`nodeSelector: {pool: mine}`)}, patching(pod(`nodeSelector: null`)), chosen},
	{"the port on other nodes", sets, []string{},
		patching(pod(`affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: Exists}]}]}}}`)), chosen},
	{"the port on tainted nodes", sets, []string{}, patching(pod(`tolerations: ` + tolerates)), chosen},
	{"health checkers on tainted nodes", sets, []string{}, patching(spec(`healthChecker: {tolerations: ` + tolerates + `}`)), chosen},

	{"own a group", attachments, nil, creating(spec(`ownership: Group`)), ownFor},
	{"own the group from now on", attachments, []string{}, patching(spec(`ownership: Group`)), ownFor},
	{"own another group", attachments, []string{spec(`ownership: Group`)}, patching(spec(`targetGroup: {name: others}`)), ownFor},
	{"own another group by its ARN", attachments, []string{spec(`ownership: Group, targetGroup: {name: null, arn: "` + aGroup + `1"}`)},
		patching(spec(`targetGroup: {arn: "` + aGroup + `2"}`)), ownFor},
	{"own groups of another tag", attachments, []string{spec(`ownership: Group, targetGroup: {name: null, tags: {a: b}}`)}, patching(spec(`targetGroup: {tags: {a: c}}`)), ownFor},
	{"own groups of a tag", attachments, []string{spec(`ownership: Group`)}, patching(spec(`targetGroup: {name: null, tags: {a: b}}`)), ownFor},
	{"own the groups of the other type", attachments, []string{spec(`ownership: Group, targetGroup: {name: null, tags: {a: b}}`)}, patching(spec(`targetType: instance`)), ownFor},
	{"own the group of that name in the controller's account", attachments, []string{spec(`ownership: Group, ` + theRole)}, patching(spec(`assumeRole: null`)), ownFor},
	{"give the group up and take it again", attachments, []string{spec(`ownership: Group`)}, patching(spec(`ownership: Registered`), spec(`ownership: Group`)), ownFor},

	{"assume a role", attachments, nil, creating(spec(theRole)), assumeFor + "arn:aws:iam::123456789012:role/team/ingress;"},
	{"assume a role from now on", attachments, []string{}, applying(spec(theRole)), assumeFor + "arn:aws:iam::123456789012:role/team/ingress;"},
	{"assume another role", attachments, []string{spec(theRole)}, patching(spec(otherRole)), assumeFor + "arn:aws:iam::123456789012:role/admin;"},
	{"assume it with another external ID", attachments, []string{spec(theRole)}, patching(spec(otherID)), assumeFor + "arn:aws:iam::123456789012:role/team/ingress;"},
	{"assume a role that a shell would expand", attachments, []string{}, patching(spec(oddRole)), assumeFor},
	{"drop the role and assume it again", attachments, []string{spec(theRole)}, patching(spec(`assumeRole: null`), spec(theRole)), assumeFor},

	{"register all nodes", attachments, nil, creating(spec(onNodes + `, nodeSelector: {}`)), attachFor},
	{"register nodes in place of pods", attachments, []string{spec(`ingressDaemonSet: null, podSelector: {}, targetType: instance, port: 30080`)},
		patching(spec(`podSelector: null, nodeSelector: {}`)), attachFor},
	{"register other nodes", attachments, []string{spec(onNodes + `, nodeSelector: {matchLabels: {pool: mine}}`)}, patching(spec(`nodeSelector: {matchLabels: null}`)), attachFor},
	{"register nodes by expression", attachments, []string{spec(onNodes + `, nodeSelector: {matchExpressions: [{key: pool, operator: In, values: [mine]}]}`)},
		patching(spec(`nodeSelector: {matchExpressions: [{key: pool, operator: In, values: [mine, others]}]}`)), attachFor},
	{"register another port of nodes", attachments, []string{spec(onNodes + `, nodeSelector: {}`)}, patching(spec(`port: 22`)), attachFor},
	{"register nodes with another group", attachments, []string{spec(onNodes + `, nodeSelector: {}`)}, patching(spec(`targetGroup: {name: others}`)), attachFor},
}

func creating(patches ...string) attemptBy {
	return func(ctx context.Context, k kind, as *dynamic.DynamicClient, name string) error {
		_, err := k.in(as).Create(ctx, k.named(name, patches...), createOptions)
		return err
	}
}

func generating(patches ...string) attemptBy {
	return func(ctx context.Context, k kind, as *dynamic.DynamicClient, name string) error {
		object := k.named(name, patches...)
		object.SetName("")
		object.SetGenerateName(name + "-")
		_, err := k.in(as).Create(ctx, object, createOptions)
		return err
	}
}

// recreating deletes the object first.
func recreating(patches ...string) attemptBy {
	return func(ctx context.Context, k kind, as *dynamic.DynamicClient, name string) error {
		if err := k.in(as).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting: %w", err)
		}
		return creating(patches...)(ctx, k, as, name)
	}
}

// patching makes changes one after the other, of which only the last may be refused.
func patching(changes ...string) attemptBy {
	return func(ctx context.Context, k kind, as *dynamic.DynamicClient, name string) error {
		for i, change := range changes {
			_, err := k.in(as).Patch(ctx, name, types.MergePatchType, toJSON(change), metav1.PatchOptions{FieldValidation: "Strict"})
			if err != nil && i < len(changes)-1 {
				return fmt.Errorf("%s: %v", change, err)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func patchingJSON(patch string) attemptBy {
	return func(ctx context.Context, k kind, as *dynamic.DynamicClient, name string) error {
		_, err := k.in(as).Patch(ctx, name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
}

func replacing(patches ...string) attemptBy {
	return func(ctx context.Context, k kind, as *dynamic.DynamicClient, name string) error {
		there, err := k.in(as).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		next := k.named(name, patches...)
		next.SetResourceVersion(there.GetResourceVersion())
		_, err = k.in(as).Update(ctx, next, updateOptions)
		return err
	}
}

func applying(patches ...string) attemptBy {
	return func(ctx context.Context, k kind, as *dynamic.DynamicClient, name string) error {
		_, err := k.in(as).Apply(ctx, name, k.named(name, patches...), metav1.ApplyOptions{FieldManager: "tenant", Force: true})
		return err
	}
}

// TestTenantsWaysOut plays a tenant who has every verb in one namespace. Each way out is
// refused with the right that is missing, and open once the command of the message was run.
func TestTenantsWaysOut(t *testing.T) {
	var said []string
	for i, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			// Another one each time, to whom nothing was granted before.
			user := fmt.Sprintf("tenant-%d-%s", i, strings.ToLower(rand.Text()))
			switch i % 3 {
			case 1:
				user = "system:serviceaccount:" + tenants + ":" + user
			case 2:
				user = "o'brien/$(exit 1) 50%/" + user
			}
			tenant, name := newTenant(t, user), fmt.Sprintf("way-%d", i)
			if w.there != nil {
				w.kind.made(t, name, w.there...)
			}
			t.Cleanup(func() { w.kind.clear() })
			err := w.take(t.Context(), w.kind, tenant, name)
			if refused := refusedWith(err, "needed in the whole cluster is "+w.needs); refused != nil {
				t.Fatal(refused)
			}
			needs, command, _ := strings.Cut(err.Error(), "; this grants it: ")
			said = append(said, needs)
			paste(t, command)
			if err := await.NoError(t.Context(), func() error { return w.take(t.Context(), w.kind, tenant, name) }); err != nil {
				t.Errorf("granted by %s, and refused: %v", command, err)
			}
		})
	}
	for _, v := range policy(t, tenantsFile).Spec.Validations {
		if !seen(said, "", firstLiteral(v.MessageExpression)) {
			t.Errorf("no way shows %s", v.Expression)
		}
	}
}

// firstLiteral is how the message of an expression begins.
func firstLiteral(expression string) string { return strings.Trim(literal.FindString(expression), "'") }

// paste runs a command as an operator does who has it from a message.
func paste(t *testing.T, command string) {
	t.Helper()
	kubectl := server.Kubectl(t.Context())
	cmd := exec.CommandContext(t.Context(), "bash", "-ec", command)
	cmd.Env = append(kubectl.Env, "PATH="+filepath.Dir(kubectl.Path)+":/usr/bin:/bin")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}
