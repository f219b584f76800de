package objects

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

const notFound = `rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/nginx:9": not found`

// began is when the container runs of pods that run.
var began = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func terminated(code int32, reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}
}

var runs = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}}

func pending(containers ...corev1.ContainerStatus) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod"}, Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: containers}}
}

// said is an event about a pod's container, a while after that began.
func said(uid types.UID, reason, container, message string, after time.Duration) corev1.Event {
	e := corev1.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: message, LastTimestamp: metav1.NewTime(began.Add(after))}
	e.InvolvedObject.UID = uid
	if container != "" {
		e.InvolvedObject.FieldPath = "spec.containers{" + container + "}"
	}
	return e
}

// TestUnready gives each reason for which a pod is not ready, as a kubelet and a scheduler report it.
func TestUnready(t *testing.T) {
	const statusCode = "Readiness probe failed: HTTP probe failed with statuscode: 503"
	const noConfigMap = `MountVolume.SetUp failed for volume "config" : configmap "nginx" not found`
	ready := corev1.ContainerStatus{Name: "sidecar", Ready: true, State: runs}
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		events []corev1.Event
		want   string
	}{
		"no status yet": {pending(), nil, ""},
		"ready": {&corev1.Pod{Status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{ready},
			Conditions:        []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}},
		}}, nil, ""},
		"deleted": {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &began}}, nil, "it is being deleted"},
		"an image that is not there": {pending(ready, corev1.ContainerStatus{Name: "nginx", State: waiting("ImagePullBackOff", `Back-off pulling image "nginx:9": ErrImagePull: `+notFound)}), nil,
			`container nginx waits: ImagePullBackOff: Back-off pulling image "nginx:9": ErrImagePull: ` + notFound},
		"a key that is not there": {pending(corev1.ContainerStatus{Name: "nginx", State: waiting("CreateContainerConfigError", `couldn't find key "port" in ConfigMap default/nginx`)}), nil,
			`container nginx waits: CreateContainerConfigError: couldn't find key "port" in ConfigMap default/nginx`},
		"crashes": {pending(corev1.ContainerStatus{
			Name: "nginx", RestartCount: 5, State: waiting("CrashLoopBackOff", "back-off 2m40s restarting failed container=nginx pod=nginx-0"), LastTerminationState: terminated(1, "Error", "nginx: [emerg]\n bind() to 0.0.0.0:80 failed\n"),
		}), nil, "container nginx ended with exit code 1 (Error): nginx: [emerg] bind() to 0.0.0.0:80 failed, restarted 5 times, and waits to be started again (CrashLoopBackOff)"},
		"crashed for the first time": {pending(corev1.ContainerStatus{Name: "nginx", State: waiting("CrashLoopBackOff", "back-off 10s"), LastTerminationState: terminated(137, "OOMKilled", "")}), nil,
			"container nginx ended with exit code 137 (OOMKilled), and waits to be started again (CrashLoopBackOff)"},
		"has just ended": {pending(corev1.ContainerStatus{Name: "nginx", State: terminated(0, "Completed", "")}), nil, "container nginx ended with exit code 0 (Completed)"},
		"the worst of two": {pending(corev1.ContainerStatus{Name: "a", State: runs}, corev1.ContainerStatus{Name: "b", State: waiting("ErrImagePull", "no such host")}), nil,
			"container b waits: ErrImagePull: no such host"},
		"is being created": {pending(corev1.ContainerStatus{Name: "nginx", State: waiting("ContainerCreating", "")}), nil, "container nginx is being created"},
		"a volume that is not there": {pending(corev1.ContainerStatus{Name: "nginx", State: waiting("ContainerCreating", "")}), []corev1.Event{
			said("pod", "FailedMount", "", noConfigMap, 0), said("another", "FailedMount", "", "not ours", time.Hour), said("pod", probeFailed, "nginx", statusCode, time.Hour),
		}, "container nginx is being created: FailedMount: " + noConfigMap},
		"runs": {pending(corev1.ContainerStatus{Name: "nginx", State: runs}), nil, "container nginx runs and is not ready"},
		"its probe fails": {pending(corev1.ContainerStatus{Name: "nginx", State: runs, Started: new(true)}), []corev1.Event{
			said("pod", probeFailed, "nginx", statusCode, time.Minute), said("pod", probeFailed, "nginx", "Readiness probe failed: EOF", time.Second), said("pod", probeFailed, "other", "Readiness probe failed: other", time.Hour),
		}, "container nginx runs and is not ready: " + statusCode},
		"a probe that failed before it was started again": {pending(corev1.ContainerStatus{Name: "nginx", RestartCount: 1, State: runs, LastTerminationState: terminated(2, "Error", "")}), []corev1.Event{
			said("pod", probeFailed, "nginx", statusCode, -time.Second),
		}, "container nginx runs and is not ready, restarted once; before, it ended with exit code 2 (Error)"},
		"starts slowly": {pending(corev1.ContainerStatus{Name: "nginx", State: runs, Started: new(false)}), []corev1.Event{
			said("pod", probeFailed, "nginx", "Startup probe failed: connection refused", 0),
		}, "container nginx runs, and its startup probe has not passed: Startup probe failed: connection refused"},
		"not scheduled": {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: 3 Insufficient cpu."},
		}}}, nil, "it is not scheduled: Unschedulable: 0/3 nodes are available: 3 Insufficient cpu"},
		"rejected": {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu"}}, nil,
			"the kubelet rejected it: OutOfcpu: Node didn't have enough resource: cpu"},
		"evicted": {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory."}}, nil,
			"it was evicted: The node was low on resource: memory"},
		"its node was shut down": {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Terminated", Message: "Pod was terminated in response to imminent node shutdown.",
			ContainerStatuses: []corev1.ContainerStatus{{Name: "nginx", State: terminated(0, "Completed", "")}}}}, nil, "it ended: Terminated: Pod was terminated in response to imminent node shutdown"},
		"ended": {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{Name: "nginx", State: terminated(0, "Completed", "")}}}}, nil,
			"it ended: container nginx ended with exit code 0 (Completed)"},
		"ended, of which nothing is known": {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}, nil, "it ended: Failed"},
		"an init container that fails": {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending,
			InitContainerStatuses: []corev1.ContainerStatus{
				{Name: "first", State: terminated(0, "Completed", "")}, {Name: "second", State: terminated(7, "Error", ""), RestartCount: 2}, {Name: "third", State: waiting("PodInitializing", "")},
			},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "nginx", State: waiting("PodInitializing", "")}},
		}}, nil, "init container second ended with exit code 7 (Error), restarted 2 times"},
		"an init container that runs": {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{Name: "migrate", State: runs}}}}, nil,
			"init container migrate has not come to its end"},
		"a sidecar that is not ready": {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, InitContainerStatuses: []corev1.ContainerStatus{{Name: "mesh", State: runs, Started: new(true)}}}}, nil,
			"init container mesh runs and is not ready"},
		"a gate that nobody sets": {&corev1.Pod{Spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "example.com/lb"}}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{ready}}}, nil, "nobody has set its readiness gate example.com/lb yet"},
		"a gate that is not met": {&corev1.Pod{Spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "example.com/lb"}}},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: "example.com/lb", Status: corev1.ConditionFalse, Reason: "Initial", Message: "the target is unhealthy"}}}}, nil,
			"its readiness gate example.com/lb is not met: Initial: the target is unhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Unready(c.pod, c.events); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestOneLine keeps the beginning and the end of what is too long, and takes nothing off twice.
func TestOneLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		message := rapid.String().Draw(t, "message") + strings.Repeat(rapid.SampledFrom([]string{"", "ü. ", "word ", "."}).Draw(t, "more"), rapid.IntRange(0, 400).Draw(t, "times"))
		got := oneLine(message)
		if utf8.RuneCountInString(got) > longestSaying || strings.ContainsAny(got, "\n\t\r") || oneLine(got) != got {
			t.Fatalf("%q of %q, and then %q", got, message, oneLine(got))
		}
	})
	long := "pulling image nginx:9" + strings.Repeat(" again", 200) + ": not found"
	if got := oneLine(long); !strings.HasPrefix(got, "pulling image nginx:9") || !strings.HasSuffix(got, ": not found") {
		t.Error(got)
	}
}

// TestOfUnready keeps of containers what the sentence is made of.
func TestOfUnready(t *testing.T) {
	state := rapid.OneOf(
		rapid.Just(corev1.ContainerState{}), rapid.Just(runs),
		rapid.Map(rapid.SampledFrom([]string{"ContainerCreating", "PodInitializing", "CrashLoopBackOff", "ErrImagePull", ""}), func(reason string) corev1.ContainerState {
			return waiting(reason, strings.Repeat("why ", 100))
		}),
		rapid.Map(rapid.Int32Range(0, 2), func(code int32) corev1.ContainerState { return terminated(code, "Error", "because\n") }),
	)
	container := rapid.Custom(func(t *rapid.T) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"), Ready: rapid.Bool().Draw(t, "ready"), Image: "image", ImageID: "id",
			Started: rapid.SampledFrom([]*bool{nil, new(true), new(false)}).Draw(t, "started"), RestartCount: rapid.Int32Range(0, 2).Draw(t, "restarts"),
			State: state.Draw(t, "state"), LastTerminationState: state.Draw(t, "last"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		pod := &corev1.Pod{Status: corev1.PodStatus{
			Phase:                 rapid.SampledFrom([]corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodFailed}).Draw(t, "phase"),
			InitContainerStatuses: rapid.SliceOfN(container, 0, 2).Draw(t, "init containers"),
			ContainerStatuses:     rapid.SliceOfN(container, 0, 3).Draw(t, "containers"),
		}}
		want := Unready(pod, nil)
		for range 2 {
			pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = OfUnready(pod.Status.InitContainerStatuses), OfUnready(pod.Status.ContainerStatuses)
			if got := Unready(pod, nil); got != want {
				t.Fatalf("%q, and of what is kept %q", want, got)
			}
		}
		for _, c := range pod.Status.ContainerStatuses {
			if c.ImageID != "" {
				t.Fatal("it keeps what nobody reads")
			}
		}
	})
}
