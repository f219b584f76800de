package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Leader waits until a controller leads that is not the one of an identity, such
// as one that was killed and still holds the lease. It gives the new identity.
func (s *Harness) Leader(ctx context.Context, not string) (identity string, err error) {
	err = Wait(ctx, "a controller to lead", func() (bool, error) {
		lease := &coordinationv1.Lease{}
		err := s.Get(ctx, types.NamespacedName{Namespace: Namespace, Name: "ingress-daemonset-controller"}, lease)
		if err != nil || lease.Spec.HolderIdentity == nil {
			return false, err
		}
		identity = *lease.Spec.HolderIdentity
		return identity != "" && identity != not, nil
	})
	return identity, err
}

// KillController kills the process of the controller of an identity.
func (s *Harness) KillController(ctx context.Context, identity string) error {
	name, _, _ := strings.Cut(identity, "_")
	pod := &corev1.Pod{}
	if err := s.Get(ctx, types.NamespacedName{Namespace: Namespace, Name: name}, pod); err != nil {
		return fmt.Errorf("reading the controller's pod: %w", err)
	}
	return Signal(pod, syscall.SIGKILL)
}

// Signal sends a signal to the first process of each container of a pod.
func Signal(pod *corev1.Pod, signal syscall.Signal) error {
	for _, c := range pod.Status.ContainerStatuses {
		_, id, _ := strings.Cut(c.ContainerID, "://")
		pid, err := processOf(id)
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, signal); err != nil {
			return fmt.Errorf("%s to %s: %w", signal, pod.Name, err)
		}
	}
	return nil
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
func (s *Harness) LabelNodes(ctx context.Context) error {
	out, err := s.Kubectl(ctx, "label", "nodes", "--all", "--overwrite", "ingress-controller-node=true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("labelling the nodes: %w: %s", err, out)
	}
	return nil
}
