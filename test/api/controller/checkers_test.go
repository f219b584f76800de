package controller

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/server"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

// checkers are what the simulated pods of health-checker DaemonSets would run:
// the code of the real health checker answers on the addresses of their nodes.
type checkers struct {
	ctx                      context.Context
	deployments, pods, nodes cache.SharedIndexInformer
	// touched asks for a look at everything, which the tests' few objects permit.
	touched chan struct{}
	running map[types.UID]*checker
	wait    sync.WaitGroup
}

type checker struct {
	namespace string
	subject   nodehealth.Subject
	responder *server.Responder
	stop      context.CancelFunc
}

func startCheckers(ctx context.Context) (stop func(), err error) {
	admin, err := harness.AdminConfig(theCluster)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return nil, err
	}
	named := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = v1alpha1.LabelName }))
	all := informers.NewSharedInformerFactory(client, 0)
	ctx, cancel := context.WithCancel(ctx)
	c := &checkers{
		ctx: ctx, touched: make(chan struct{}, 1), running: map[types.UID]*checker{},
		deployments: named.Apps().V1().Deployments().Informer(), pods: named.Core().V1().Pods().Informer(), nodes: all.Core().V1().Nodes().Informer(),
	}
	for _, informer := range []cache.SharedIndexInformer{c.deployments, c.pods} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: c.touch, UpdateFunc: func(_, obj any) { c.touch(obj) }, DeleteFunc: c.touch,
		}); err != nil {
			cancel()
			return nil, err
		}
	}
	for _, factory := range []informers.SharedInformerFactory{named, all} {
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
	}
	c.wait.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.touched:
				c.look()
			}
		}
	})
	return func() {
		cancel()
		c.wait.Wait()
	}, nil
}

func (c *checkers) touch(any) {
	select {
	case c.touched <- struct{}{}:
	default:
	}
}

// look starts and ends checkers as their pods do, and tells each what there is.
func (c *checkers) look() {
	alive := map[types.UID]bool{}
	for _, pod := range list[*corev1.Pod](c.pods) {
		if pod.Labels[v1alpha1.LabelHealthCheckPort] != "" && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			alive[pod.UID] = c.running[pod.UID] != nil || c.start(pod)
		}
	}
	for uid, checker := range c.running {
		if !alive[uid] {
			checker.stop()
			delete(c.running, uid)
			continue
		}
		checker.responder.Update(nodehealth.Observe(checker.subject,
			where(list[*appsv1.Deployment](c.deployments), checker), where(list[*corev1.Pod](c.pods), checker)))
	}
}

func (c *checkers) start(pod *corev1.Pod) bool {
	found, ok, err := c.nodes.GetStore().GetByKey(pod.Spec.NodeName)
	if err != nil || !ok {
		return false
	}
	ctx, stop := context.WithCancel(c.ctx)
	address := net.JoinHostPort(found.(*corev1.Node).Status.Addresses[0].Address, pod.Labels[v1alpha1.LabelHealthCheckPort])
	l, err := server.Listen(ctx, address)
	if err != nil {
		// As a pod would: it fails, and is tried again.
		stop()
		return false
	}
	responder := server.NewResponder(slog.New(slog.DiscardHandler))
	c.running[pod.UID] = &checker{
		namespace: pod.Namespace, responder: responder, stop: stop,
		subject: nodehealth.Subject{Node: pod.Spec.NodeName, Name: pod.Labels[v1alpha1.LabelName]},
	}
	c.wait.Go(func() { _ = responder.Serve(ctx, l) })
	return true
}

func list[T any](informer cache.SharedIndexInformer) []T {
	var out []T
	for _, obj := range informer.GetStore().List() {
		out = append(out, obj.(T))
	}
	return out
}

// where are the objects that the checker watches.
func where[T metav1.Object](objects []T, c *checker) []T {
	var out []T
	for _, o := range objects {
		labels := o.GetLabels()
		if o.GetNamespace() == c.namespace && labels[v1alpha1.LabelName] == v1alpha1.LabelValue(c.subject.Name) &&
			labels[v1alpha1.LabelNode] == v1alpha1.LabelValue(c.subject.Node) {
			out = append(out, o)
		}
	}
	return out
}

// portString is the health-check port as labels have it.
var portString = strconv.Itoa(port)
