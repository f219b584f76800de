package kubectl

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// recordedFleet stores midway, with three revisions on record: the third is the present one, the first
// the last that all nodes served with.
func recordedFleet(t *testing.T, change func(*v1alpha1.IngressDaemonSet)) (*fakeAPI, func() *v1alpha1.IngressDaemonSet) {
	t.Helper()
	f := newFakeAPI(t)
	set := midway()
	all := records(t, set)
	for i := range all {
		f.put(kindRevision, &all[i])
	}
	set.Status.CurrentRevision, set.Status.UpdateRevision = all[2].Labels[v1alpha1.LabelRevision], all[0].Labels[v1alpha1.LabelRevision]
	change(set)
	f.put(kindSet, set)
	return f, func() *v1alpha1.IngressDaemonSet {
		t.Helper()
		stored := &v1alpha1.IngressDaemonSet{}
		f.read(kindSet, "nginx", stored)
		return stored
	}
}

func imageOf(set *v1alpha1.IngressDaemonSet) string {
	return set.Spec.Template.Spec.Containers[0].Image
}

// TestAbortAndRetry goes past a revision that never came through, and forward to what was aborted.
func TestAbortAndRetry(t *testing.T) {
	f, stored := recordedFleet(t, func(*v1alpha1.IngressDaemonSet) {})
	if out, err := f.ids("rollout", "abort", "nginx"); err != nil || !strings.Contains(out, "nginx aborted, goes back to revision 1") || imageOf(stored()) != "nginx:1.20" {
		t.Fatalf("%v, %s: the spec has %s", err, out, imageOf(stored()))
	}
	if out, err := f.ids("rollout", "abort", "nginx"); err == nil || !strings.Contains(err.Error(), "there is nothing to abort") {
		t.Errorf("a second time: %v, %s", err, out)
	}
	if out, err := f.ids("rollout", "retry", "nginx"); err != nil || !strings.Contains(out, "nginx tries revision 3 again") || imageOf(stored()) != "nginx:1.22" {
		t.Fatalf("%v, %s: the spec has %s", err, out, imageOf(stored()))
	}
	if _, aborted := stored().Annotations[v1alpha1.AnnotationAborted]; aborted {
		t.Error("it is still called aborted")
	}
}

// TestRetryOfAnotherTime tries nothing again after somebody has gone elsewhere.
func TestRetryOfAnotherTime(t *testing.T) {
	f, stored := recordedFleet(t, func(*v1alpha1.IngressDaemonSet) {})
	for _, args := range [][]string{{"rollout", "abort", "nginx"}, {"set", "image", "nginx", "nginx=nginx:1.23"}} {
		if out, err := f.ids(args...); err != nil {
			t.Fatalf("%v: %v, %s", args, err, out)
		}
	}
	if out, err := f.ids("rollout", "retry", "nginx"); err == nil || !strings.Contains(err.Error(), "there is nothing to try again") || imageOf(stored()) != "nginx:1.23" {
		t.Errorf("%v, %s: the spec has %s", err, out, imageOf(stored()))
	}
}

func TestNothingToAbort(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.IngressDaemonSet)
		want   string
	}{
		"complete": {func(set *v1alpha1.IngressDaemonSet) {
			set.Status.CurrentRevision = objects.Revision(objects.Template(set))
		}, "which all nodes served with last"},
		"the first": {func(set *v1alpha1.IngressDaemonSet) { set.Status.CurrentRevision = "" }, "no revision has come through on all nodes yet"},
		"rejected": {func(set *v1alpha1.IngressDaemonSet) {
			set.Status.Rejected = &v1alpha1.RejectedRevision{Revision: objects.Revision(objects.Template(set)), Message: "too many errors"}
		}, "was rejected, and nodes go back to"},
		"not on record": {func(set *v1alpha1.IngressDaemonSet) { set.Status.CurrentRevision = "0123456789" }, "the template of revision 0123456789 is not on record any more"},
	} {
		f, stored := recordedFleet(t, c.change)
		if out, err := f.ids("rollout", "abort", "nginx"); err == nil || !strings.Contains(err.Error(), c.want) || imageOf(stored()) != "nginx:1.22" {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
}

// TestRetryOfWhatStands: a halt ends with a change of the spec, a rejection with one of the template.
func TestRetryOfWhatStands(t *testing.T) {
	stands := func(reason string) func(*v1alpha1.IngressDaemonSet) {
		return func(set *v1alpha1.IngressDaemonSet) { stopped(reason)(set, &set.Status.Conditions[1]) }
	}
	for name, c := range map[string]struct {
		change     func(*v1alpha1.IngressDaemonSet)
		generation int64
		template   bool
		says       string
	}{
		"not detached in time":         {stands(v1alpha1.ReasonDetachTimedOut), 3, false, "nginx tried again"},
		"analysis failed":              {stands(v1alpha1.ReasonAnalysisFailed), 3, false, "nginx tried again"},
		"too slow, which is only told": {stands(v1alpha1.ReasonProgressDeadlineExceeded), 2, false, "there is nothing to try again"},
		"too slow": {func(set *v1alpha1.IngressDaemonSet) {
			stands(v1alpha1.ReasonProgressDeadlineExceeded)(set)
			set.Spec.UpdateStrategy.RollingUpdate.FailurePolicy = v1alpha1.PauseOnFailure
		}, 3, false, "nginx tried again"},
		"rejected": {func(set *v1alpha1.IngressDaemonSet) {
			set.Status.Rejected = &v1alpha1.RejectedRevision{Revision: objects.Revision(objects.Template(set))}
		}, 3, true, "again, as "},
		"of a spec that was changed since": {func(set *v1alpha1.IngressDaemonSet) {
			stands(v1alpha1.ReasonDetachTimedOut)(set)
			set.Generation = 3
		}, 3, false, "there is nothing to try again"},
		"paused":  {func(set *v1alpha1.IngressDaemonSet) { set.Spec.Paused = true }, 2, false, "it is paused (run rollout resume first)"},
		"rolling": {func(*v1alpha1.IngressDaemonSet) {}, 2, false, "there is nothing to try again"},
	} {
		t.Run(name, func(t *testing.T) {
			f, stored := recordedFleet(t, c.change)
			before := stored()
			out, err := f.ids("rollout", "retry", "nginx")
			if err != nil {
				out += err.Error()
			}
			after := stored()
			changed := objects.Revision(objects.Template(after)) != objects.Revision(objects.Template(before))
			if !strings.Contains(out, c.says) || after.Generation != c.generation || changed != c.template || after.Spec.Paused != before.Spec.Paused {
				t.Errorf("%v, %s: generation %d, another template %t, paused %t", err, out, after.Generation, changed, after.Spec.Paused)
			}
		})
	}
}

// TestRetryOfAHalt is one write, however often: nothing is half done where that fails, and nothing of the spec
// means anything else.
func TestRetryOfAHalt(t *testing.T) {
	f, stored := recordedFleet(t, func(set *v1alpha1.IngressDaemonSet) {
		stopped(v1alpha1.ReasonAnalysisFailed)(set, &set.Status.Conditions[1])
	})
	for generation := int64(3); generation < 6; generation++ {
		before, writes := stored(), 0
		f.beforePatch = func() { writes++ }
		out, err := f.ids("rollout", "retry", "nginx")
		after := stored()
		if err != nil || writes != 1 || !strings.Contains(out, "nginx tried again") || after.Generation != generation || !reflect.DeepEqual(after.Spec, before.Spec) {
			t.Fatalf("%v, %s: %d writes, generation %d", err, out, writes, after.Generation)
		}
		after.Status.ObservedGeneration, after.Status.Conditions[1].ObservedGeneration = generation, generation
		f.put(kindSet, after)
		if generation == 3 {
			f.write(kindSet, "nginx", func(u *unstructured.Unstructured) { _ = unstructured.SetNestedField(u.Object, false, "spec", "paused") })
		}
	}
}

// TestRetryOfAHaltThatIsPaused at the same time leaves that as it is.
func TestRetryOfAHaltThatIsPaused(t *testing.T) {
	f, stored := recordedFleet(t, func(set *v1alpha1.IngressDaemonSet) {
		stopped(v1alpha1.ReasonAnalysisFailed)(set, &set.Status.Conditions[1])
	})
	f.beforePatch = func() {
		if out, err := f.ids("rollout", "pause", "nginx"); err != nil {
			t.Errorf("%v, %s", err, out)
		}
	}
	if out, err := f.ids("rollout", "retry", "nginx"); err == nil || !strings.Contains(err.Error(), "somebody else changed the spec") || !stored().Spec.Paused {
		t.Errorf("%v, %s", err, out)
	}
}

// TestPausedChangesSayWhatTheyWaitFor: nothing moves before somebody resumes.
func TestPausedChangesSayWhatTheyWaitFor(t *testing.T) {
	f, _ := recordedFleet(t, func(set *v1alpha1.IngressDaemonSet) { set.Spec.Paused = true })
	for _, command := range []string{"undo", "abort", "retry"} {
		if out, err := f.ids("rollout", command, "nginx"); err != nil || !strings.Contains(out, "when it is resumed") {
			t.Errorf("%s: %v, %s", command, err, out)
		}
	}
}

// TestRetryOfTheLastFailure: a template that somebody went back to, and that is rejected then, is what is
// tried again, and not what was aborted before.
func TestRetryOfTheLastFailure(t *testing.T) {
	f, stored := recordedFleet(t, func(*v1alpha1.IngressDaemonSet) {})
	if out, err := f.ids("rollout", "abort", "nginx"); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	set := stored()
	set.Status.Rejected = &v1alpha1.RejectedRevision{Revision: objects.Revision(objects.Template(set))}
	f.put(kindSet, set)
	if out, err := f.ids("rollout", "retry", "nginx"); err != nil || !strings.Contains(out, "again, as ") || imageOf(stored()) != "nginx:1.20" {
		t.Errorf("%v, %s: the spec has %s", err, out, imageOf(stored()))
	}
}

func TestSetImage(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
		want string
	}{
		"one":         {[]string{"nginx=nginx:1.23"}, "nginx image updated", "busybox:1 nginx:1.23 exporter:1"},
		"two":         {[]string{"nginx=nginx:1.23", "exporter=exporter:2"}, "nginx image updated", "busybox:1 nginx:1.23 exporter:2"},
		"before them": {[]string{"init=busybox:2"}, "nginx image updated", "busybox:2 nginx:1.22 exporter:1"},
		"all":         {[]string{"*=one:1"}, "nginx image updated", "one:1 one:1 one:1"},
		"the same":    {[]string{"nginx=nginx:1.22"}, "nginx has these images already", "busybox:1 nginx:1.22 exporter:1"},
		"by a digest": {[]string{"nginx=nginx@sha256:01=2"}, "nginx image updated", "busybox:1 nginx@sha256:01=2 exporter:1"},
		"unknown":     {[]string{"exporter=exporter:2", "ngnix=nginx:1.23"}, `there is no container "ngnix": did you mean "nginx"? (there are init, nginx, exporter)`, "busybox:1 nginx:1.22 exporter:1"},
	} {
		f, stored := recordedFleet(t, func(set *v1alpha1.IngressDaemonSet) {
			spec := &set.Spec.Template.Spec
			spec.InitContainers = []corev1.Container{{Name: "init", Image: "busybox:1"}}
			spec.Containers = append(spec.Containers, corev1.Container{Name: "exporter", Image: "exporter:1"})
		})
		out, err := f.ids(append([]string{"set", "image", "nginx"}, c.args...)...)
		if err != nil {
			out = err.Error()
		}
		spec := stored().Spec.Template.Spec
		got := strings.Join(append(images(&corev1.PodSpec{Containers: spec.InitContainers}), images(&spec)...), " ")
		if !strings.Contains(out, c.says) || got != c.want {
			t.Errorf("%s: %s; the spec has %s", name, out, got)
		}
	}
}

// TestRolloutStatusOnce tells how far it is, without waiting, and fails where it does not go on.
func TestRolloutStatusOnce(t *testing.T) {
	f, _ := recordedFleet(t, func(*v1alpha1.IngressDaemonSet) {})
	if out, err := f.ids("rollout", "status", "nginx", "--watch=false"); err != nil || !strings.Contains(out, "1 of 4 nodes are updated") {
		t.Errorf("under way: %v, %s", err, out)
	}
	f, _ = recordedFleet(t, func(set *v1alpha1.IngressDaemonSet) {
		stopped(v1alpha1.ReasonDetachTimedOut)(set, &set.Status.Conditions[1])
	})
	if out, err := f.ids("rollout", "status", "nginx", "--watch=false"); err == nil || !strings.Contains(err.Error(), v1alpha1.ReasonDetachTimedOut) {
		t.Errorf("halted: %v, %s", err, out)
	}
}

// TestRolloutStatusWaits until what it waits for is there.
func TestRolloutStatusWaits(t *testing.T) {
	f, stored := recordedFleet(t, func(*v1alpha1.IngressDaemonSet) {})
	f.beforeWatch = func() {
		set := stored()
		set.Status.Conditions[1].Reason, set.Status.UpdatedNodes = v1alpha1.ReasonComplete, 4
		f.put(kindSet, set)
	}
	if out, err := f.ids("rollout", "status", "nginx", "--revision", "3"); err != nil || !strings.Contains(out, "successfully rolled out: 4 of 4 nodes") {
		t.Errorf("%v, %s", err, out)
	}
}

// TestRolloutStatusOutlastsItsWatch, of which the API server knows no more where it was.
func TestRolloutStatusOutlastsItsWatch(t *testing.T) {
	f, stored := recordedFleet(t, func(*v1alpha1.IngressDaemonSet) {})
	f.expired = true
	f.beforeWatch = func() {
		set := stored()
		set.Status.Conditions[1].Reason, set.Status.UpdatedNodes = v1alpha1.ReasonComplete, 4
		f.put(kindSet, set)
	}
	if out, err := f.ids("rollout", "status", "nginx"); err != nil || !strings.Contains(out, "successfully rolled out") || f.expired {
		t.Errorf("%v, %s", err, out)
	}
}

// TestRolloutStatusOfARevision fails where another is rolled out, or is while it waits.
func TestRolloutStatusOfARevision(t *testing.T) {
	f, stored := recordedFleet(t, func(*v1alpha1.IngressDaemonSet) {})
	for revision, want := range map[string]string{"2": "revision 2 (", "9": "unable to find revision 9"} {
		if out, err := f.ids("rollout", "status", "nginx", "--revision", revision); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %s", revision, err, out)
		}
	}
	f.beforeWatch = func() {
		set := stored()
		set.Spec.Template.Spec.Containers[0].Image = "nginx:1.23"
		f.put(kindSet, set)
	}
	if out, err := f.ids("rollout", "status", "nginx", "--revision", "3"); err == nil || !strings.Contains(err.Error(), "is not what is rolled out") {
		t.Errorf("%v, %s", err, out)
	}
}

// TestHistoryForPrograms has all that the table has, and the templates.
func TestHistoryForPrograms(t *testing.T) {
	f, _ := recordedFleet(t, func(*v1alpha1.IngressDaemonSet) {})
	out, err := f.ids("rollout", "history", "nginx", "-o", "json")
	var past []pastRevision
	if err := errors.Join(err, json.Unmarshal([]byte(out), &past)); err != nil || len(past) != 3 {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, want := range []pastRevision{{Revision: 1, Complete: true, Images: []string{"nginx:1.20"}}, {Revision: 2, Images: []string{"nginx:1.21"}}, {Revision: 3, Present: true, Images: []string{"nginx:1.22"}}} {
		got := past[i]
		if got.Revision != want.Revision || got.Present != want.Present || got.Complete != want.Complete || got.Images[0] != want.Images[0] || got.Template.Spec.Containers[0].Image != want.Images[0] || len(got.Hash) != 10 {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if out, err := f.ids("rollout", "history", "nginx", "-o", "yaml", "--revision", "2"); err != nil || !strings.Contains(out, "image: nginx:1.21") || strings.Contains(out, "hash:") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := f.ids("rollout", "history", "nginx", "-o", "json", "--revision", "2"); err != nil || !json.Valid([]byte(out)) {
		t.Errorf("%v\n%s", err, out)
	}
}
