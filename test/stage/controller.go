package stage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Leader is the pod of the controller that leads.
func (s *Stage) Leader(ctx context.Context) (*corev1.Pod, error) {
	lease := &coordinationv1.Lease{}
	if err := s.Get(ctx, types.NamespacedName{Namespace: Namespace, Name: "ingress-daemonset-controller"}, lease); err != nil {
		return nil, fmt.Errorf("reading the controller's Lease: %w", err)
	}
	if lease.Spec.HolderIdentity == nil {
		return nil, fmt.Errorf("nobody leads")
	}
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	pod := &corev1.Pod{}
	return pod, s.Get(ctx, types.NamespacedName{Namespace: Namespace, Name: name}, pod)
}

// KillController kills the process of the leading controller as soon as one runs,
// and returns its pod's name.
func (s *Stage) KillController(ctx context.Context) (string, error) {
	var name string
	var last error
	// Who was killed a moment ago still holds the lease, and seems to run.
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		name, last = s.killLeader(ctx)
		return last == nil, nil
	})
	if err != nil {
		return "", fmt.Errorf("killing the leading controller: %w: %w", err, last)
	}
	return name, nil
}

func (s *Stage) killLeader(ctx context.Context) (string, error) {
	pod, err := s.Leader(ctx)
	if err != nil {
		return "", err
	}
	for _, c := range pod.Status.ContainerStatuses {
		_, id, _ := strings.Cut(c.ContainerID, "://")
		pid, err := processOf(id)
		if err != nil {
			return "", err
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return "", fmt.Errorf("killing the controller: %w", err)
		}
	}
	return pod.Name, nil
}

// processOf is the first process of a container, found by its control group.
func processOf(container string) (int, error) {
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return 0, err
	}
	for _, file := range groups {
		content, err := os.ReadFile(file)
		if err != nil || container == "" || !strings.Contains(string(content), container) {
			continue
		}
		return strconv.Atoi(filepath.Base(filepath.Dir(file)))
	}
	return 0, fmt.Errorf("no process of container %q", container)
}

// LabelNodes gives every node the label that examples/ingressdaemonset.yaml selects.
func (s *Stage) LabelNodes(ctx context.Context) error {
	out, err := s.Kubectl(ctx, "label", "nodes", "--all", "--overwrite", "ingress-controller-node=true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("labelling the nodes: %w: %s", err, out)
	}
	return nil
}
