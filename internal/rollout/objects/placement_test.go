package objects

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"
)

// TestAlsoWhere adds the nodes and the tolerations of others, nothing where they bring
// none, and nothing more the second time.
func TestAlsoWhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plain, others := drawPlacement(t, "own"), drawPlacement(t, "others")
		both, again := plain.DeepCopy(), plain.DeepCopy()
		AlsoWhere(both, others)
		AlsoWhere(again, both)
		if diff := cmp.Diff(both, again); diff != "" {
			t.Errorf("the second time it is another: %s", diff)
		}
		more := false
		for _, labels := range everyLabelling() {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
			own, theirs := matches(t, plain, node), matches(t, others, node)
			more = more || theirs && !own
			if matches(t, both, node) != (own || theirs) {
				t.Errorf("a node with %v is matched by the own: %t, by the others: %t, by both: %t", labels, own, theirs, !(own || theirs))
			}
		}
		if tolerated := len(both.Spec.Template.Spec.Tolerations) > len(plain.Spec.Template.Spec.Tolerations); more || tolerated {
			if CheckerRevision(both.Spec.Template.Labels) == CheckerRevision(plain.Spec.Template.Labels) {
				t.Error("health checkers that run elsewhere have the same revision")
			}
		}
		for _, o := range others.Spec.Template.Spec.Tolerations {
			if !tolerated(both.Spec.Template.Spec.Tolerations, &corev1.Taint{Key: o.Key, Effect: corev1.TaintEffectNoExecute}) {
				t.Errorf("%v is not tolerated", o)
			}
		}
	})
}

func drawPlacement(t *rapid.T, name string) *appsv1.DaemonSet {
	set := proxy()
	selector := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b"}), rapid.SampledFrom([]string{"1", "2"}), 0, 2)
	set.Spec.NodeSelector = selector.Draw(t, name+" selector")
	set.Spec.Template.Spec.NodeSelector = selector.Draw(t, name+" template's selector")
	term := rapid.Custom(func(t *rapid.T) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) corev1.NodeSelectorRequirement {
			return corev1.NodeSelectorRequirement{
				Key:      rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"),
				Operator: rapid.SampledFrom([]corev1.NodeSelectorOperator{corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn}).Draw(t, "operator"),
				Values:   rapid.SliceOfN(rapid.SampledFrom([]string{"1", "2"}), 1, 2).Draw(t, "values"),
			}
		}), 0, 2).Draw(t, "expressions")}
	})
	if terms := rapid.SliceOfN(term, 0, 2).Draw(t, name+" terms"); len(terms) > 0 {
		set.Spec.Template.Spec.Affinity = requiring(terms)
	}
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y"}), 0, 2, rapid.ID).Draw(t, name+" tolerations") {
		set.Spec.Template.Spec.Tolerations = append(set.Spec.Template.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	return Checker(set, 10080, "image")
}

func everyLabelling() (out []map[string]string) {
	for _, a := range []string{"", "1", "2"} {
		for _, b := range []string{"", "1", "2"} {
			labels := map[string]string{}
			for key, value := range map[string]string{"a": a, "b": b} {
				if value != "" {
					labels[key] = value
				}
			}
			out = append(out, labels)
		}
	}
	return out
}

func matches(t *rapid.T, ds *appsv1.DaemonSet, node *corev1.Node) bool {
	spec := &ds.Spec.Template.Spec
	ok, err := nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, spec.Affinity).Match(node)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}
