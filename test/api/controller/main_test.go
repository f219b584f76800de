// Package controller tests the controller on a real API server, with the real
// Deployment and DaemonSet controllers and scheduler, on simulated nodes.
package controller

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/analysis"
	planner "github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	rollout "github.com/mumoshu/ingress-daemonset-controller/internal/rollout/controller"
	targets "github.com/mumoshu/ingress-daemonset-controller/internal/targets/controller"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

const (
	systemNamespace = "ingress-daemonset-system"
	accountName     = "ingress-daemonset-controller"
	account         = "system:serviceaccount:" + systemNamespace + ":" + accountName
	firstImage      = "controller:v1"
	patience        = 3 * time.Minute
)

var (
	// All tests share one cluster and one controller.
	theCluster *cluster.Cluster
	// api is the administrator's, who is the user in these tests.
	api client.WithWatch
	// theController runs under its own account.
	theController *controller
)

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait for most of their time.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	// The one node of the cluster's own only makes it start kwok: the tests make theirs.
	os.Exit(harness.OnAPIServer("api-controller", 1, func(ctx context.Context, c *cluster.Cluster) (int, error) {
		theCluster = c
		return run(ctx, m)
	}))
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	logs := &bytes.Buffer{}
	setUpLogs(logs)
	if api, err = harness.Admin(theCluster); err != nil {
		return 0, err
	}
	if err := install(ctx); err != nil {
		return 0, err
	}
	stopCheckers, err := startCheckers(ctx)
	if err != nil {
		return 0, err
	}
	defer stopCheckers()
	if theController, err = startController(ctx, firstImage); err != nil {
		return 0, err
	}
	code = m.Run()
	err = errors.Join(checkLeftovers(ctx), theController.stop())
	if code == 0 && err == nil {
		err = checkPermissions(ctx)
	}
	if code != 0 || err != nil {
		err = errors.Join(err, harness.KeepLog("api-controller.log", logs.Bytes()))
	}
	return code, err
}

func setUpLogs(to io.Writer) {
	log := logr.FromSlogHandler(slog.NewTextHandler(&locked{w: to}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
}

type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// install applies config/default, but for the Deployment of the controller, and
// waits until an IngressDaemonSet is accepted.
func install(ctx context.Context) error {
	out, err := theCluster.Kubectl(ctx, "kustomize", "../../../config/default").Output()
	if err != nil {
		return fmt.Errorf("rendering config/default: %w", err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if object.GetKind() == "Deployment" {
			continue
		}
		if err := api.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test")); err != nil {
			return fmt.Errorf("installing %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return poll(ctx, func(ctx context.Context) error {
		return api.Create(ctx, base("default", "probe"), client.DryRunAll)
	})
}

// controller is a running controller.
type controller struct {
	manager ctrl.Manager
	cancel  context.CancelFunc
	ended   chan error
}

// startController runs the controller as cmd/controller does, with the rights
// that config/default gives it, and returns when it leads.
func startController(ctx context.Context, image string) (*controller, error) {
	own, err := accountConfig(ctx)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(own, ctrl.Options{
		Scheme:                        api.Scheme(),
		Cache:                         rollout.CacheOptions(false),
		Metrics:                       server.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "ingress-daemonset-controller",
		LeaderElectionNamespace:       systemNamespace,
		LeaderElectionReleaseOnCancel: true,
		// Several run in this process, one after the other.
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return nil, err
	}
	// Where the judges are, beside the API server.
	judges, err := analysis.ParseHosts([]string{"127.0.0.1"})
	if err != nil {
		return nil, err
	}
	measurer := analysis.New(analysis.Options{Services: mgr.GetClient(), Live: mgr.GetAPIReader(), APIServer: own.Host, Hosts: judges})
	detachers := []planner.Detacher{{Ask: detachKey, Answer: timestampKey}, {Ask: detachKey, Answer: "example.com/a"}, {Ask: detachKey, Answer: "example.com/b"}}
	options := rollout.Options{Image: image, Measure: measurer.Measure, CheckAnalysis: analysis.Check, Detachers: detachers}
	if err := rollout.SetUp(mgr, options); err != nil {
		return nil, err
	}
	if err := targets.SetUpIdle(mgr); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &controller{manager: mgr, cancel: cancel, ended: make(chan error, 1)}
	go func() { c.ended <- mgr.Start(ctx) }()
	select {
	case <-mgr.Elected():
		return c, nil
	case err := <-c.ended:
		return nil, fmt.Errorf("the controller ended: %w", err)
	case <-time.After(patience):
		return nil, fmt.Errorf("the controller does not lead after %s", patience)
	}
}

func (c *controller) stop() error {
	c.cancel()
	return <-c.ended
}

func accountConfig(ctx context.Context) (*rest.Config, error) {
	token := &authenticationv1.TokenRequest{}
	serviceAccount := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: accountName}}
	if err := api.SubResource("token").Create(ctx, serviceAccount, token); err != nil {
		return nil, fmt.Errorf("asking for a token: %w", err)
	}
	admin, err := harness.AdminConfig(theCluster)
	if err != nil {
		return nil, err
	}
	own := rest.AnonymousClientConfig(admin)
	own.BearerToken = token.Status.Token
	own.QPS, own.Burst = 200, 400
	return own, nil
}

// poll tries until there is no error.
func poll(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if err := try(ctx); ctx.Err() == nil {
			last = err
		}
		return last == nil && ctx.Err() == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

// checkLeftovers waits until every IngressDaemonSet is gone, now that the tests'
// namespaces are deleted: no finalizer may wedge.
func checkLeftovers(ctx context.Context) error {
	return poll(ctx, func(ctx context.Context) error {
		left := &v1alpha1.IngressDaemonSetList{}
		if err := api.List(ctx, left); err != nil {
			return err
		}
		if len(left.Items) == 0 {
			return nil
		}
		set := left.Items[0]
		return fmt.Errorf("IngressDaemonSet %s/%s is not gone: %v, %v", set.Namespace, set.Name, set.Finalizers, set.Status)
	})
}
