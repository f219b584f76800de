// Command controller runs the controller of rollouts and, where its flags say so, those that keep
// target groups, detach nodes from load balancers and tell proxies what to serve.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"

	"github.com/go-logr/logr"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/analysis"
	"github.com/mumoshu/ingress-daemonset-controller/internal/garbage"
	rollout "github.com/mumoshu/ingress-daemonset-controller/internal/rollout/controller"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// version is set by the linker in a release.
var version = "of a build from source"

// garbageRule is for what a large fleet keeps.
var garbageRule = garbage.Rule{Little: 32 << 20, LeastPercent: 15}

type options struct {
	version           bool
	image             string
	probes            string
	debug             string
	elect             bool
	electionNamespace string
	verbosity         int
	apiQPS            float64
	detachAnnotations list
	metrics           metricsFlags
	analyses          analyses
	loadBalancers     loadBalancers
	proxies           proxies
}

func main() {
	var o options
	flag.StringVar(&o.image, "healthchecker-image", os.Getenv("HEALTHCHECKER_IMAGE"), "image of the health checkers where an IngressDaemonSet names none; this controller's own image contains them")
	flag.StringVar(&o.probes, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	flag.StringVar(&o.debug, "debug-bind-address", "", "address of /debug/pprof, such as 127.0.0.1:6060; empty for none")
	flag.BoolVar(&o.elect, "leader-elect", false, "elect a leader, so that several replicas can run")
	flag.StringVar(&o.electionNamespace, "leader-election-namespace", os.Getenv("POD_NAMESPACE"), "namespace of the Lease, which is the controller's")
	flag.IntVar(&o.verbosity, "v", 0, "verbosity of the log: 0 for what is done, 1 for conflicts, too, or 2 for every state and decision")
	flag.Float64Var(&o.apiQPS, "kube-api-qps", 200, "requests a second to the API server on average; bursts are twice as many")
	flag.Var(&o.detachAnnotations, "detach-annotations", "detachers beside node-detacher, each as ASK=ANSWER, or ASK where it does not answer: the key of the annotation on Nodes that annotateNodeToDetach may write, and that of the timestamp which waitForDetachmentByAnnotatedTimestamp may then read; may be repeated")
	o.metrics.register()
	o.analyses.register()
	o.loadBalancers.register()
	o.proxies.register()
	flag.BoolVar(&o.version, "version", false, "print the version and end")
	flag.Parse()
	if o.version {
		fmt.Println("ingress-daemonset-controller", version)
		return
	}
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		fmt.Fprintln(os.Stderr, "controller:", err)
		os.Exit(1)
	}
}

// run runs the controller until the context ends, which is no error.
func run(ctx context.Context, o options) error {
	if o.image == "" {
		return fmt.Errorf("no image for the health checkers: set --healthchecker-image or HEALTHCHECKER_IMAGE to this controller's own image")
	}
	detachers, err := readDetachers(o.detachAnnotations)
	if err != nil {
		return fmt.Errorf("--detach-annotations: %w", err)
	}
	for _, check := range []func() error{o.metrics.check, o.analyses.check, o.loadBalancers.check, o.proxies.check} {
		if err := check(); err != nil {
			return err
		}
	}
	if o.elect || o.proxies.enabled {
		if o.electionNamespace, err = ownNamespace(o.electionNamespace); err != nil {
			return err
		}
	}
	log := logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.Level(-o.verbosity)}))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	log.Info("starting", "version", version)
	mgr, err := o.connect(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	rollouts := rollout.Options{Version: version, Image: o.image, Measure: o.analyses.measurer(mgr).Measure, CheckAnalysis: analysis.Check, Detachers: detachers}
	if err := rollout.SetUp(mgr, rollouts); err != nil {
		return err
	}
	if err := o.loadBalancers.setUp(context.Background(), mgr); err != nil {
		return err
	}
	if err := o.proxies.setUp(mgr, o.electionNamespace); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		go garbageRule.Keep(ctx)
	}
	return start(ctx, mgr)
}

// connect waits for the API server, and makes the manager.
func (o *options) connect(ctx context.Context) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), gatewayv1.Install(scheme)); err != nil {
		return nil, err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	config.QPS, config.Burst = float32(o.apiQPS), int(2*o.apiQPS)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return awaitingWatches{next} })
	asked, err := arrive(ctx, config, scheme, o.probes, readsOwn, o.loadBalancers.alone)
	if err != nil {
		return nil, err
	}
	settings := ctrl.Options{
		Scheme: scheme,
		// What was read of kinds is not asked for again, so that nothing of what follows fails where the API server
		// is away again before the manager has started.
		MapperProvider:                func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return asked.RESTMapper(), nil },
		Cache:                         o.proxies.keep(rollout.CacheOptions(o.loadBalancers.cloud != "")),
		Metrics:                       o.metrics.options(),
		HealthProbeBindAddress:        o.probes,
		PprofBindAddress:              o.debug,
		LeaderElection:                o.elect,
		LeaderElectionReleaseOnCancel: true,
		// A rollout waits for no longer than lease and retry when the leader dies.
		LeaseDuration: new(leaseDuration),
		RenewDeadline: new(renewDeadline),
		RetryPeriod:   new(retryPeriod),
	}
	if o.elect {
		lock, err := newLease(config, o.electionNamespace, o.proxies.reachedAt(config.Host))
		if err != nil {
			return nil, err
		}
		settings.LeaderElectionResourceLockInterface, o.loadBalancers.leads, o.proxies.leads, o.proxies.lease = lock, lock.leads, lock.leads, lock
	}
	mgr, err := ctrl.NewManager(config, settings)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return mgr, nil
}

// start runs the manager until the context ends. A manager that is told to end before its caches are filled waits for
// them all the same, and keeps a processor busy: where the API server is away again, until somebody kills it. It has
// begun nothing by then that would have to be brought to an end.
func start(ctx context.Context, mgr ctrl.Manager) error {
	ended, filled := make(chan error, 1), make(chan bool, 1)
	go func() { ended <- mgr.Start(ctx) }()
	go func() { filled <- mgr.GetCache().WaitForCacheSync(ctx) }()
	select {
	case err := <-ended:
		return err
	case all := <-filled:
		if !all {
			return nil
		}
	}
	return <-ended
}
