package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/test/lb"
	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
	"github.com/mumoshu/ingress-daemonset-controller/tools/images"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// event is something single that may make all health checkers answer the same wrong
// thing at once.
type event struct {
	name string
	// do returns when it is over.
	do func(context.Context, *testing.T, *harness.Fleet, *poll) error
	// right are the other answers than 200 that it has nodes give, and where they are
	// given on one node only, that node.
	right []string
	on    string
}

// events happen in this order. Clocks are not among them, since the processes of one
// machine share theirs: internal/nodehealth and internal/rollout simulate those.
var events = []event{
	{name: "a new version of controller and health checkers", do: upgrade},
	{name: "every token is refused", do: refuseTokens},
	{name: "the API server hangs on its storage", do: hang, right: []string{"503 TooFewPodsReady"}, on: "node-3"},
	{name: "the health checkers' rights are gone, when a rollout comes", do: removeRights, right: []string{"503 Marked"}},
	{name: "another CA, and full disks, when a rollout comes", do: rotateCA, right: []string{"503 Marked"}},
}

// TestSingleEvents has each event happen under traffic and asks every health-check port ten
// times a second: no node answers what is wrong, nothing is lost, and all is well again
// without anybody's help. The control of the traffic is that of TestHostNetwork.
func TestSingleEvents(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patient)
	defer cancel()
	s := scenario{example: "nginx.yaml"}
	fleet := s.open(ctx, t)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	report := s.underTraffic(ctx, t, fleet, hostTold, fleet.Tell(watching), func(_ *lb.LB, client *traffic.Process) error {
		asked := startPoll(ctx, fleet.Harness, 10080)
		defer asked.stop()
		for _, e := range events {
			if err := e.runOn(ctx, t, fleet, asked, client); err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
		}
		return nil
	})
	losesNothing(t, report)
}

func (e event) runOn(ctx context.Context, t *testing.T, fleet *harness.Fleet, asked *poll, client *traffic.Process) error {
	begun, failed := time.Now(), client.Snapshot().Failed
	err := e.do(ctx, t, fleet, asked)
	if err == nil {
		err = asked.until(ctx, "every health checker to see the API server again", sees)
	}
	answers := asked.take()
	t.Logf("%s, %.0f s: %s; %d requests failed", e.name, time.Since(begun).Seconds(), told(answers), client.Snapshot().Failed-failed)
	for node, r := range answers {
		for kind := range r.kinds {
			expected := slices.Contains(e.right, kind) && (e.on == "" || e.on == node)
			if kind != fine && !expected {
				t.Errorf("%s: %s answered %s", e.name, node, kind)
			}
		}
	}
	return err
}

// sees reports whether a health checker answers 200 by what the API server says.
func sees(_ string, r record) bool {
	return r.Serving && r.APIAgeSeconds == 0 && !strings.Contains(r.Message, "own probes")
}

// upgrade installs a controller with another image, whose health checkers replace the
// old ones. No proxy is restarted.
func upgrade(ctx context.Context, t *testing.T, fleet *harness.Fleet, _ *poll) error {
	before, err := fleet.Pods(ctx)
	if err != nil {
		return err
	}
	if err := useNext(ctx, t); err != nil {
		return err
	}
	if err := checkersRun(ctx, fleet, next, nodes); err != nil {
		return err
	}
	after, err := fleet.Pods(ctx)
	for uid, pod := range before {
		if err == nil && (after[uid] == nil || restarts(after[uid]) != restarts(pod)) {
			t.Errorf("the new version of the controller restarted %s", pod.Name)
		}
	}
	return err
}

const next = "docker.io/mumoshu/ingress-daemonset-controller:next"

// useNext installs the controller by another name of its image, until the test is over.
func useNext(ctx context.Context, t *testing.T) error {
	if err := theHarness.PushImage(ctx, next, filepath.Join(theHarness.Dir(), "ingress-daemonset-controller.tar")); err != nil {
		return err
	}
	t.Cleanup(func() {
		if err := theHarness.UseImage(context.Background(), images.Product); err != nil {
			t.Error(err)
		}
	})
	return theHarness.UseImage(ctx, next)
}

// checkersRun waits until the health checkers of so many nodes run an image.
func checkersRun(ctx context.Context, fleet *harness.Fleet, image string, on int32) error {
	ds := &appsv1.DaemonSet{}
	return harness.Wait(ctx, "the health checkers to run "+image, func() (bool, error) {
		err := theHarness.Get(ctx, types.NamespacedName{Namespace: fleet.Key.Namespace, Name: fleet.Key.Name + "-10080"}, ds)
		s := ds.Status
		return err == nil && ds.Spec.Template.Spec.Containers[0].Image == image && s.ObservedGeneration == ds.Generation &&
			s.UpdatedNumberScheduled >= on && s.NumberReady == on && s.NumberUnavailable == s.DesiredNumberScheduled-on, err
	})
}

func restarts(pod *corev1.Pod) (n int32) {
	for _, c := range pod.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}

// refuseTokens starts the API server with another key for tokens, and then with its own.
func refuseTokens(ctx context.Context, _ *testing.T, _ *harness.Fleet, asked *poll) error {
	accept, err := theHarness.RefuseTokens(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	err = asked.until(ctx, "no health checker to see the API server", func(_ string, r record) bool { return r.APIAgeSeconds > 10 })
	return errors.Join(err, accept())
}

// settleTime is how long health checkers do not believe an API server that was away.
const settleTime = 15 * time.Second

// hang has the health checkers find again an API server that they lost, which cannot tell
// them anything, and has a node's pods not be ready then.
func hang(ctx context.Context, _ *testing.T, fleet *harness.Fleet, asked *poll) error {
	if err := theHarness.FreezeStorage(ctx); err != nil {
		return err
	}
	err := hung(ctx, fleet.Nodes(), asked)
	return errors.Join(err, theHarness.ThawStorage(context.WithoutCancel(ctx)))
}

func hung(ctx context.Context, on []*cluster.Node, asked *poll) error {
	var reconnect []func() error
	for _, n := range on {
		undo, err := refuse(ctx, n, "OUTPUT", "6443")
		if err != nil {
			return err
		}
		reconnect = append(reconnect, undo)
	}
	err := asked.until(ctx, "no health checker to see the API server", func(_ string, r record) bool { return r.APIAgeSeconds > 0 })
	for _, undo := range reconnect {
		err = errors.Join(err, undo())
	}
	if err != nil {
		return err
	}
	time.Sleep(settleTime + time.Second)
	last := on[nodes-1]
	ready, err := refuse(ctx, last, "INPUT", "10254")
	if err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	err = asked.until(soon, last.Name()+" to say that its pods are not ready", func(node string, r record) bool { return r.Serving != (node == last.Name()) })
	return errors.Join(err, ready())
}

// refuse has a node refuse what goes to a port, until the function that it returns is called.
func refuse(ctx context.Context, n *cluster.Node, chain, port string) (accept func() error, err error) {
	iptables := func(action string) error {
		out, err := n.Command(ctx, "iptables", "-w", action, chain, "-p", "tcp", "--dport", port, "-j", "REJECT", "--reject-with", "tcp-reset").CombinedOutput()
		if err != nil {
			return fmt.Errorf("port %s on %s: %w: %s", port, n.Name(), err, out)
		}
		return nil
	}
	return func() error { return iptables("-D") }, iptables("-I")
}

// removeRights has the API server refuse the health checkers what they ask. The
// controller says so, and begins no update that they would not see.
func removeRights(ctx context.Context, t *testing.T, fleet *harness.Fleet, asked *poll) error {
	role := &rbacv1.ClusterRole{}
	if err := theHarness.Get(ctx, types.NamespacedName{Name: "ingress-daemonset-healthchecker"}, role); err != nil {
		return err
	}
	grant := func(rules []rbacv1.PolicyRule) error {
		before := role.DeepCopy()
		role.Rules = rules
		return theHarness.Patch(ctx, role, client.MergeFrom(before))
	}
	rules := role.Rules
	if err := grant(nil); err != nil {
		return err
	}
	err := blinded(ctx, fleet, asked)
	if err = errors.Join(err, grant(rules)); err != nil {
		return err
	}
	return fleet.WaitServing(ctx)
}

func blinded(ctx context.Context, fleet *harness.Fleet, asked *poll) error {
	// Watches that are open would go on.
	if err := theHarness.RestartAPIServer(ctx); err != nil {
		return err
	}
	if err := asked.until(ctx, "every health checker to say that it is blind", func(_ string, r record) bool { return r.Blind != "" }); err != nil {
		return err
	}
	if err := waitFor(ctx, fleet, v1alpha1.ConditionWarning, v1alpha1.ReasonHealthCheckerBlind); err != nil {
		return err
	}
	if err := fleet.Change(ctx, harness.SetVersion("v2")); err != nil {
		return err
	}
	return waitFor(ctx, fleet, v1alpha1.ConditionBlocked, v1alpha1.ReasonHealthCheckerBlind)
}

// rotateCA replaces the CA of the API server, as it is done: pods trust the next one before
// it is used. Then each health checker finds its disk full when it stores the next mark.
func rotateCA(ctx context.Context, t *testing.T, fleet *harness.Fleet, asked *poll) error {
	certificate, err := theHarness.PublishNextCA(ctx)
	if err != nil {
		return err
	}
	if err := trusted(ctx, fleet, certificate); err != nil {
		return err
	}
	if err := theHarness.UseNextCA(ctx); err != nil {
		return err
	}
	if err := asked.until(ctx, "every health checker to see the API server again", sees); err != nil {
		return err
	}
	full, err := fillDisks(fleet.Nodes())
	if err != nil {
		return err
	}
	if err := fleet.Change(ctx, harness.SetVersion("v3")); err != nil {
		return err
	}
	if err := fleet.WaitServing(ctx); err != nil {
		return err
	}
	for _, file := range full {
		if _, err := os.Readlink(file); err == nil {
			t.Errorf("no mark was stored in %s", file)
		}
	}
	return nil
}

// trusted waits until each pod has the certificate. A kubelet that synchronises a pod,
// such as for a new annotation, renews its files.
func trusted(ctx context.Context, fleet *harness.Fleet, certificate []byte) error {
	for _, namespace := range []string{fleet.Key.Namespace, harness.Namespace} {
		published := &corev1.ConfigMap{}
		if err := harness.Wait(ctx, "the CA to be published", func() (bool, error) {
			err := theHarness.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "kube-root-ca.crt"}, published)
			return strings.Contains(published.Data["ca.crt"], string(certificate)), err
		}); err != nil {
			return err
		}
		if out, err := theHarness.Kubectl(ctx, "-n", namespace, "annotate", "pods", "--all", "e2e/ca=next").CombinedOutput(); err != nil {
			return fmt.Errorf("annotating the pods: %w: %s", err, out)
		}
	}
	return harness.Wait(ctx, "every pod to trust the CA", func() (bool, error) {
		files, err := volumes(fleet.Nodes(), "kubernetes.io~projected/kube-api-access-*/ca.crt")
		if err != nil {
			return false, err
		}
		for _, file := range files {
			if content, err := os.ReadFile(file); err != nil || !bytes.Contains(content, certificate) {
				return false, err
			}
		}
		return true, nil
	})
}

// fillDisks has the next write of each health checker's state fail for want of space.
func fillDisks(on []*cluster.Node) (files []string, err error) {
	folders, err := volumes(on, "kubernetes.io~empty-dir/state")
	for _, folder := range folders {
		file := filepath.Join(folder, "state.json.new")
		files, err = append(files, file), errors.Join(err, os.Symlink("/dev/full", file))
	}
	return files, err
}

// volumes are where files of the pods' volumes are seen, at least one on each node.
func volumes(on []*cluster.Node, pattern string) ([]string, error) {
	var all []string
	for _, n := range on {
		pods, err := n.File("/run/machine/kubelet/pods/*/volumes/")
		if err != nil {
			return nil, err
		}
		files, err := filepath.Glob(filepath.Join(pods, pattern))
		if len(files) == 0 {
			return nil, errors.Join(err, fmt.Errorf("no pod of %s has %s", n.Name(), pattern))
		}
		all = append(all, files...)
	}
	return all, nil
}
