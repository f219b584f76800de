package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// panicked is the exit code of a Go program that panics, raced of one whose race
	// detector has found a race.
	panicked, raced = 2, 66
)

// WatchCrashes begins to watch for controllers, health checkers and proxies of ours that panic or race, in
// all namespaces, until ctx is over. The function that it returns tells which did.
func (s *Harness) WatchCrashes(ctx context.Context) func() error {
	var mu sync.Mutex
	crashed := map[string]error{}
	go s.observe(ctx, &corev1.PodList{}, func(object client.Object) {
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, c := range pod.Status.ContainerStatuses {
			if t := crash(c); t != nil && crashed[t.ContainerID] == nil {
				previous := fmt.Sprintf("--previous=%t", c.State.Terminated != t)
				log, _ := s.Kubectl(ctx, "-n", pod.Namespace, "logs", pod.Name, "-c", c.Name, previous, "--tail=100").CombinedOutput()
				if toldToEnd(pod, t) && !strings.Contains(string(log), "goroutine ") {
					continue
				}
				crashed[t.ContainerID] = fmt.Errorf("%s of %s/%s crashed with exit code %d:\n%s", c.Name, pod.Namespace, pod.Name, t.ExitCode, log)
			}
		}
	})
	return func() error {
		mu.Lock()
		defer mu.Unlock()
		var all []error
		for _, err := range crashed {
			all = append(all, err)
		}
		return errors.Join(all...)
	}
}

// toldToEnd reports whether a container of a pod that is deleted ended as it began. A Go program
// that gets SIGTERM before it listens for signals dies of it, but as the first process of
// a container it cannot, and exits with 2 instead, without a word (runtime.dieFromSignal).
func toldToEnd(pod *corev1.Pod, t *corev1.ContainerStateTerminated) bool {
	return pod.DeletionTimestamp != nil && t.ExitCode == panicked && t.FinishedAt.Sub(t.StartedAt.Time) <= 2*time.Second
}

// crash is how one of our containers crashed; nil where it did not.
func crash(c corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if !slices.Contains([]string{"controller", "healthchecker", "proxy"}, c.Name) {
		return nil
	}
	for _, state := range []corev1.ContainerState{c.State, c.LastTerminationState} {
		if t := state.Terminated; t != nil && slices.Contains([]int32{panicked, raced}, t.ExitCode) {
			return t
		}
	}
	return nil
}
