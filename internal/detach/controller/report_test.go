package controller

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/detach"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// told are the events that were made since this was last asked.
func told(r *Reconciler) (out []string) {
	for {
		select {
		case event := <-r.recorder.(*events.FakeRecorder).Events:
			out = append(out, event)
		default:
			return out
		}
	}
}

// TestWhatWasNotDoneIsNotTold makes the event of a step once, when it was carried out: not where a write
// is refused, nor where the reason is gone by which a cache still had it decided.
func TestWhatWasNotDoneIsNotTold(t *testing.T) {
	const begun = "Normal DetachmentBegun it is taken out of its load balancers: Cordoned"
	conflict := apierrors.NewConflict(corev1.Resource("nodes"), "a", errors.New("changed"))
	for name, refused := range map[string]string{
		"the mark":       "patch Node a",
		"the condition":  "patch Node/status a",
		"the Attachment": "create Attachment a",
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, cordoned("a"))
			r := c.reconciler()
			refuses := true
			c.Refuse = func(write string) error {
				if refuses && write == refused {
					return conflict
				}
				return nil
			}
			pass := func() []string {
				if _, err := r.Reconcile(t.Context(), onepass.Everything); err != nil {
					t.Fatal(err)
				}
				return told(r)
			}
			if got := pass(); len(got) > 0 {
				t.Errorf("%s is refused, and told is %q", name, got)
			}
			refuses = false
			if got := pass(); !slices.Equal(got, []string{begun}) {
				t.Errorf("it is written, and told is %q", got)
			}
			if got := pass(); len(got) > 0 {
				t.Errorf("told once more: %q", got)
			}
		})
	}
	t.Run("nobody asks for it any more", func(t *testing.T) {
		now := cordoned("a")
		now.Spec.Unschedulable = false
		c := newCluster(t, now)
		r := c.reconciler()
		for _, cached := range []*corev1.Node{cordoned("a"), now} {
			r.client = readsFrom{c, newCluster(t, cached.DeepCopy())}
			if _, err := r.Reconcile(t.Context(), onepass.Everything); err != nil {
				t.Fatal(err)
			}
			if got := told(r); len(got) > 0 {
				t.Errorf("told is %q", got)
			}
		}
	})
}

// TestWhatIsStillMarkedIsNotTold to be attached: somebody deleted its Attachment, and its marks cannot be
// removed yet.
func TestWhatIsStillMarkedIsNotTold(t *testing.T) {
	node := cordoned("a")
	node.Spec.Unschedulable, node.Annotations = false, map[string]string{v1alpha1.AnnotationNodeDetaching: "true"}
	c := newCluster(t, node)
	r := c.reconciler()
	r.phases.of["a"] = detach.Attaching
	for _, step := range []struct {
		refused error
		want    []string
	}{
		{apierrors.NewConflict(corev1.Resource("nodes"), "a", errors.New("changed")), nil},
		{nil, []string{"Normal NodeAttached every target it had takes traffic again"}},
	} {
		c.Refuse = func(string) error { return step.refused }
		if _, err := r.Reconcile(t.Context(), onepass.Everything); err != nil {
			t.Fatal(err)
		}
		if got := told(r); !slices.Equal(got, step.want) {
			t.Errorf("refused by %v, and told is %q, want %q", step.refused, got, step.want)
		}
	}
}

// TestStepsAreLogged says each step once, of which node it is and why.
func TestStepsAreLogged(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID, pod.Spec.NodeName = "ns", "app", "1", "a"
	pod.Annotations = map[string]string{v1alpha1.AnnotationDeletionPriority: "1"}
	for name, c := range map[string]struct {
		objects []client.Object
		want    []string
	}{
		"it begins": {[]client.Object{cordoned("a")}, []string{
			`"msg"="carried out" "node"="a" "reason"="Cordoned: what it is attached to is being remembered" "action"="Mark" "station"="Detaching"`,
			`"msg"="carried out" "node"="a" "reason"="Cordoned: what it is attached to is being remembered" "action"="WriteAttachment" "wanted"="Detached"`,
		}},
		"it is out": {[]client.Object{cordoned("a"), detached("a"), pod}, []string{
			`"msg"="carried out" "node"="a" "reason"="Cordoned" "action"="Mark" "station"="Detached"`,
			`"msg"="carried out" "node"="a" "reason"="Cordoned" "action"="StopPod" "pod"="ns/app" "priority"=1`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			logger := funcr.New(func(_, line string) { lines = append(lines, strings.TrimPrefix(line, `"level"=0 `)) }, funcr.Options{})
			cluster := newCluster(t, c.objects...)
			if _, err := cluster.reconciler().Reconcile(log.IntoContext(t.Context(), logger), onepass.Everything); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(lines, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
	if why := because(detach.NodeDecision{}); why != nothingAsks {
		t.Errorf("without a reason: %q", why)
	}
}
