package targets

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func sleeping(seconds int64) *corev1.Lifecycle {
	return &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}}
}

func command(words ...string) *corev1.Lifecycle {
	return &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: words}}}
}

func TestGraceOf(t *testing.T) {
	proxy := func(hook *corev1.Lifecycle) corev1.PodSpec {
		return corev1.PodSpec{Containers: []corev1.Container{{Lifecycle: hook, Ports: []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 80}}}, {Lifecycle: sleeping(7)}}}
	}
	undeclared, sidecar, patient := proxy(sleeping(8)), corev1.PodSpec{Containers: []corev1.Container{{}}}, proxy(nil)
	undeclared.Containers[0].Ports = nil
	always := corev1.ContainerRestartPolicyAlways
	sidecar.InitContainers = []corev1.Container{{Lifecycle: sleeping(9), Ports: []corev1.ContainerPort{{ContainerPort: 8080}}, RestartPolicy: &always}}
	patient.TerminationGracePeriodSeconds = new(int64(600))
	for name, c := range map[string]struct {
		template corev1.PodSpec
		mode     Mode
		sleep    time.Duration
		period   time.Duration
		stop     time.Duration
	}{
		"nothing written":         {proxy(nil), Mode{Port: 8080}, 0, 30 * time.Second, 0},
		"a period":                {patient, Mode{Port: 8080}, 0, 10 * time.Minute, 0},
		"sleep":                   {proxy(sleeping(5)), Mode{Port: 8080}, 5 * time.Second, 30 * time.Second, 0},
		"by its hostPort":         {proxy(sleeping(5)), Mode{Port: 80}, 5 * time.Second, 30 * time.Second, 0},
		"port not declared":       {undeclared, Mode{Port: 8080}, 8 * time.Second, 30 * time.Second, 0},
		"by a nodePort":           {proxy(sleeping(5)), Mode{Port: 30080}, 7 * time.Second, 30 * time.Second, 0},
		"a sidecar serves":        {sidecar, Mode{Port: 8080}, 9 * time.Second, 30 * time.Second, 0},
		"command":                 {proxy(command("sleep", "20")), Mode{Port: 8080}, 20 * time.Second, 30 * time.Second, 0},
		"command with a path":     {proxy(command("/bin/sleep", "2m")), Mode{Port: 8080}, 2 * time.Minute, 30 * time.Second, 0},
		"line of shell":           {proxy(command("sh", "-c", "nginx -s quit; sleep 15&& true")), Mode{Port: 8080}, 15 * time.Second, 30 * time.Second, 0},
		"another command":         {proxy(command("nosleep", "5")), Mode{Port: 8080}, Endless, 30 * time.Second, 0},
		"endless sleep":           {proxy(command("sleep", "infinity")), Mode{Port: 8080}, Endless, 30 * time.Second, 0},
		"it waits for its target": {proxy(nil), Mode{Port: 8080, Hook: true, HookLeaves: 7 * time.Second}, Endless, 30 * time.Second, 7 * time.Second},
		"no hook that would":      {proxy(nil), Mode{Port: 8080, HookLeaves: 7 * time.Second}, 0, 30 * time.Second, 0},
	} {
		if got := c.mode.GraceOf(c.template); got != (Grace{c.sleep, c.period, c.stop}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestShort(t *testing.T) {
	const settle, end = 300 * time.Second, 330 * time.Second
	const before = "a load balancer may send new connections to a pod for 5m0s after its deletion began, and lets open ones go on for another 30s, but "
	const stopped = "the container that serves is stopped after 20s: give it a preStop hook that sleeps, lifecycle.preStop.sleep.seconds: 300"
	const killed = "the pod is killed after 5m29s: set terminationGracePeriodSeconds to 330"
	for name, c := range map[string]struct {
		grace Grace
		want  string
	}{
		"enough":          {Grace{settle, end, 0}, ""},
		"waits by a hook": {Grace{Endless, end, 0}, ""},
		"with its rest":   {Grace{Endless, end + 10*time.Second, 10 * time.Second}, ""},
		"without it":      {Grace{Endless, end, 10 * time.Second}, before + "the pod is killed after 5m30s, of which its drain hook leaves it the last 10s: set terminationGracePeriodSeconds to 340"},
		"stops early":     {Grace{20 * time.Second, end, 0}, before + stopped},
		"killed early":    {Grace{Endless, 329 * time.Second, 0}, before + killed},
		"both":            {Grace{20 * time.Second, 329 * time.Second, 0}, before + stopped + ", and " + killed},
	} {
		if got := c.grace.Short(settle, end); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := (Grace{1, 4, 5}).Shorter(Grace{2, 3, 6}); got != (Grace{1, 3, 6}) {
		t.Errorf("the shorter is %+v", got)
	}
}
