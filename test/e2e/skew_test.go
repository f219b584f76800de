package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/test/lb"
	"github.com/mumoshu/ingress-daemonset-controller/tools/images"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// releaseBefore is the commit that v0.1.0 was made of.
const releaseBefore = "dd2c808"

// release is a version of this project, built, with the manifests that install it.
type release struct{ root, image string }

// TestReleaseBefore upgrades from the release before in the middle of a rollout, and goes
// back to it in the middle of the next. A node at least is left to the other controller,
// with health checkers that are not its own: these are replaced only then.
func TestReleaseBefore(t *testing.T) {
	old, present := buildBefore(t), pushPresent(t)
	t.Cleanup(func() {
		if err := theHarness.Deploy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := old.install(t.Context()); err != nil {
		t.Fatal(err)
	}
	thereAndBack(old, present, old.install, present.install).run(t)
}

// thereAndBack goes from one release to another in the middle of a rollout, and back in the middle of the
// next, each time by what installs the release.
func thereAndBack(old, present release, back, there func(context.Context) error) scenario {
	return scenario{
		example: "nginx.yaml", told: hostTold, untold: hostUntold,
		adjust: func(set *v1alpha1.IngressDaemonSet) {
			checkersOf(old)(set)
			leave(1)(set)
		},
		during: func(ctx context.Context, _ *testing.T, fleet *harness.Fleet, _ *lb.LB) error {
			if err := present.takeOver(ctx, fleet, there); err != nil {
				return err
			}
			if err := fleet.Change(ctx, leave(1)); err != nil {
				return err
			}
			if err := fleet.Change(ctx, harness.SetVersion("v3")); err != nil {
				return err
			}
			return old.takeOver(ctx, fleet, back)
		},
	}
}

// takeOver installs the release while a rollout of another is under way, has it finish
// that with the other's health checkers, and then replace these.
func (r release) takeOver(ctx context.Context, fleet *harness.Fleet, install func(context.Context) error) error {
	if err := fleet.WaitUpdated(ctx, 1); err != nil {
		return err
	}
	if err := install(ctx); err != nil {
		return err
	}
	if err := r.leads(ctx); err != nil {
		return err
	}
	if err := fleet.Change(ctx, leave(0)); err != nil {
		return err
	}
	if err := fleet.WaitServing(ctx); err != nil {
		return err
	}
	if err := fleet.Change(ctx, checkersOf(r)); err != nil {
		return err
	}
	return checkersRun(ctx, fleet, r.image, nodes)
}

// checkersOf has the health checkers of a release, whatever the controller.
func checkersOf(r release) func(*v1alpha1.IngressDaemonSet) {
	return func(set *v1alpha1.IngressDaemonSet) { set.Spec.HealthChecker.Image = r.image }
}

// leave leaves so many nodes as they are.
func leave(nodes int32) func(*v1alpha1.IngressDaemonSet) {
	return func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.UpdateStrategy.RollingUpdate.Partition = new(intstr.FromInt32(nodes))
	}
}

// leads waits until a controller of the release leads.
func (r release) leads(ctx context.Context) error {
	return harness.Wait(ctx, r.image+" to lead", func() (bool, error) {
		identity, err := theHarness.Leader(ctx, "")
		if err != nil {
			return false, err
		}
		name, _, _ := strings.Cut(identity, "_")
		pod := &corev1.Pod{}
		err = theHarness.Get(ctx, types.NamespacedName{Namespace: harness.Namespace, Name: name}, pod)
		if err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return pod.Spec.Containers[0].Image == r.image, nil
	})
}

// install installs or updates the controller as the release's own manifests have it.
func (r release) install(ctx context.Context) error {
	manifests, err := theHarness.Kubectl(ctx, "kustomize", filepath.Join(r.root, "config", "default")).Output()
	if err != nil {
		return fmt.Errorf("rendering the manifests of %s: %w", r.image, err)
	}
	text := strings.ReplaceAll(string(manifests), "mumoshu/ingress-daemonset-controller:latest", r.image)
	apply := theHarness.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", "-")
	apply.Stdin = strings.NewReader(text)
	if out, err := apply.CombinedOutput(); err != nil {
		return fmt.Errorf("installing %s: %w: %s", r.image, err, out)
	}
	return r.installed(ctx)
}

// installed waits until all of the controller's pods are of the release.
func (r release) installed(ctx context.Context) error {
	out, err := theHarness.Kubectl(ctx, "-n", harness.Namespace, "rollout", "status", "deployment", "ingress-daemonset-controller", "--timeout=180s").CombinedOutput()
	if err != nil {
		return fmt.Errorf("waiting for %s: %w: %s", r.image, err, out)
	}
	return nil
}

// pushPresent gives the image of this version a tag of its own.
func pushPresent(t *testing.T) release {
	t.Helper()
	r := release{theHarness.Root(), "docker.io/mumoshu/ingress-daemonset-controller:present"}
	if err := theHarness.PushImage(t.Context(), r.image, filepath.Join(theHarness.Dir(), "ingress-daemonset-controller.tar")); err != nil {
		t.Fatal(err)
	}
	return r
}

// buildBefore builds the release before from its commit.
func buildBefore(t *testing.T) release {
	t.Helper()
	r := release{filepath.Join(t.TempDir(), "source"), "docker.io/mumoshu/ingress-daemonset-controller:before"}
	if err := os.Mkdir(r.root, 0o755); err != nil {
		t.Fatal(err)
	}
	source, err := exec.CommandContext(t.Context(), "git", "-C", theHarness.Root(), "archive", releaseBefore).Output()
	if err != nil {
		t.Fatalf("the release before is built from commit %s, which is not here: test in a clone with its whole history (git fetch --unshallow): %v", releaseBefore, err)
	}
	unpack := exec.CommandContext(t.Context(), "tar", "-x", "-C", r.root)
	unpack.Stdin = bytes.NewReader(source)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpacking the release before: %v: %s", err, out)
	}
	tar, err := images.Build(t.Context(), r.root, filepath.Join(filepath.Dir(r.root), "image"), images.Product)
	if err != nil {
		t.Fatal(err)
	}
	if err := theHarness.PushImage(t.Context(), r.image, tar); err != nil {
		t.Fatal(err)
	}
	return r
}
