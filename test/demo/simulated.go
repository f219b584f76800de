package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/tools/images"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// mostRows is how many nodes are shown of a large fleet.
const mostRows = 8

// simulate shows a roll-out on nodes where only Kubernetes believes that pods
// run. The control plane, the controller and the health checkers' verdicts are
// real.
func simulate(ctx context.Context, o options) (err error) {
	defer func() { err = errors.Join(err, end(ctx, o, tryExample(o))) }()
	heading("A cluster of %d simulated nodes: no container runs, and NO TRAFFIC IS SENT", o.simulated)
	if _, err := cluster.Start(ctx, cluster.Options{SimulatedNodes: o.simulated, Dir: o.dir, Log: os.Stdout}); err != nil {
		return err
	}
	s, err := harness.Open(o.dir, os.Stdout)
	if err != nil {
		return err
	}
	i := newIngress(s)
	i.adjust = simulated
	// What was started ends with ctx, before the cluster does.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := install(ctx, s, i); err != nil {
		return err
	}
	heading("nginx as an IngressDaemonSet: 2 pods a node, a quarter of the nodes at a time")
	ctx, cancel = context.WithTimeoutCause(ctx, patience, errImpatient)
	defer cancel()
	if err := i.apply(ctx); err != nil {
		return err
	}
	return rollOutSimulated(ctx, i)
}

// simulated makes the example roll out a fleet.
func simulated(set *v1alpha1.IngressDaemonSet) {
	shortenGrace(set, graceSeconds)
	set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailableNodes = new(intstr.FromString("25%"))
}

// install installs the API, and runs as processes of this machine what otherwise
// runs in pods: the controller and the health checkers.
func install(ctx context.Context, s *harness.Harness, i *ingress) error {
	if err := installAPI(ctx, s); err != nil {
		return err
	}
	if err := s.MakeNamespace(ctx, i.namespace()); err != nil {
		return err
	}
	if err := start(ctx, s, "./test/bench/checkers", "--kubeconfig", s.Kubeconfig(), "--namespace", i.namespace(),
		"--name", i.Key.Name, "--port", strconv.Itoa(checkPort)); err != nil {
		return err
	}
	return start(ctx, s, "./cmd/controller", "--kubeconfig", s.Kubeconfig(), "--healthchecker-image", images.Product,
		"--metrics-bind-address", "0", "--health-probe-bind-address", "0")
}

func installAPI(ctx context.Context, s *harness.Harness) error {
	defer s.Step("installing the API").Done()
	for _, args := range [][]string{
		{"apply", "--server-side", "-f", "config/crd/ingressdaemonsets.yaml", "-f", "config/policy/deny.yaml", "-f", "config/policy/warn.yaml"},
		{"wait", "--for=condition=Established", "--timeout=60s", "-f", "config/crd/ingressdaemonsets.yaml"},
	} {
		if out, err := s.Kubectl(ctx, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %s: %w: %s", args[0], err, out)
		}
	}
	return nil
}

// start builds and starts a program of the project, which ends with ctx.
func start(ctx context.Context, s *harness.Harness, pkg string, args ...string) error {
	step := s.Step("building and starting %s", pkg)
	program, err := s.BuildTool(ctx, pkg)
	step.Done()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(s.Dir(), "logs", filepath.Base(pkg)+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	// What outlives a crash of this process is ended with the cluster.
	cmd.Env = append(os.Environ(), machine.ClusterVariable+"="+s.Dir())
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", pkg, err)
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

func rollOutSimulated(ctx context.Context, i *ingress) error {
	before, err := i.look(ctx)
	if err != nil {
		return err
	}
	changed := time.Now()
	if err := i.change(ctx, newVersion); err != nil {
		return err
	}
	screen := newScreen(os.Stdout)
	now, err := i.watch(ctx, func(now state) { screen.show(frameOf(now, time.Since(changed))) })
	screen.leave()
	if err := errors.Join(err, replaced(before.pods, now.pods), i.checkClean(ctx)); err != nil {
		return err
	}
	fmt.Printf("\nAll %d pods were replaced in %.1f s. No traffic was sent: `make demo` as root sends it.\n", len(now.pods), time.Since(changed).Seconds())
	return nil
}

// watch shows the states that the fleet goes through until it is complete.
func (i *ingress) watch(ctx context.Context, show func(state)) (state, error) {
	for {
		now, err := i.look(ctx)
		if err != nil {
			return now, err
		}
		show(now)
		if now.complete {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return now, context.Cause(ctx)
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// frameOf shows the nodes under way.
func frameOf(now state, elapsed time.Duration) frame {
	f := frame{elapsed: elapsed, phase: "rolling out; no traffic is sent", summary: now.summary}
	names := slices.Sorted(maps.Keys(now.nodes))
	for _, name := range names[:min(len(names), mostRows)] {
		n := now.nodes[name]
		f.nodes = append(f.nodes, row{name: name, state: n.state, reason: n.reason, pods: describePods(now.pods, name)})
	}
	return f
}
