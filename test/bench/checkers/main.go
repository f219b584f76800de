// Command checkers answers the health checks of all simulated nodes with the code
// of the real health checker. Simulated nodes have loopback addresses, so one
// process can listen for each; one watch feeds all.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/server"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	namespace := flag.String("namespace", "", "namespace of the IngressDaemonSet")
	name := flag.String("name", "", "name of the IngressDaemonSet")
	port := flag.Int("port", 0, "health-check port")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *namespace, *name, *port); err != nil {
		fmt.Fprintln(os.Stderr, "checkers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, namespace, name string, port int) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	f := newFleet(client, namespace, name)
	if err := f.listen(ctx, client, port); err != nil {
		return err
	}
	if err := f.watch(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// fleet is the health checkers of all nodes.
type fleet struct {
	name              string
	nodes             map[string]*node
	factory           informers.SharedInformerFactory
	deployments, pods cache.SharedIndexInformer
}

type node struct {
	// mu orders the states that the two informers lead to.
	mu        sync.Mutex
	responder *server.Responder
}

const byNode = "node"

func newFleet(client kubernetes.Interface, namespace, name string) *fleet {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = v1alpha1.LabelName + "=" + v1alpha1.LabelValue(name) + "," + v1alpha1.LabelNode
		}))
	return &fleet{
		name: name, nodes: map[string]*node{}, factory: factory,
		deployments: factory.Apps().V1().Deployments().Informer(), pods: factory.Core().V1().Pods().Informer(),
	}
}

// listen opens the port of each simulated node.
func (f *fleet) listen(ctx context.Context, client kubernetes.Interface, port int) error {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "type=simulated"})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	log := slog.New(slog.DiscardHandler)
	for _, n := range list.Items {
		l, err := server.Listen(ctx, net.JoinHostPort(addressOf(&n), strconv.Itoa(port)))
		if err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
		responder := server.NewResponder(log)
		f.nodes[n.Name] = &node{responder: responder}
		go func() { _ = responder.Serve(ctx, l) }()
	}
	return nil
}

func addressOf(n *corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// watch starts to feed the responders.
func (f *fleet) watch(ctx context.Context) error {
	for _, informer := range []cache.SharedIndexInformer{f.deployments, f.pods} {
		err := informer.AddIndexers(cache.Indexers{byNode: func(obj any) ([]string, error) {
			return []string{obj.(metav1.Object).GetLabels()[v1alpha1.LabelNode]}, nil
		}})
		if err != nil {
			return err
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    f.update,
			UpdateFunc: func(_, obj any) { f.update(obj) },
			DeleteFunc: f.update,
		}); err != nil {
			return err
		}
	}
	f.factory.Start(ctx.Done())
	f.factory.WaitForCacheSync(ctx.Done())
	return nil
}

// update answers for the object's node from what is known now.
func (f *fleet) update(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	name := obj.(metav1.Object).GetLabels()[v1alpha1.LabelNode]
	n := f.nodes[name]
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	subject := nodehealth.Subject{Node: name, Name: f.name}
	n.responder.Update(nodehealth.Observe(subject, on[*appsv1.Deployment](f.deployments, name), on[*corev1.Pod](f.pods, name)))
}

func on[T any](informer cache.SharedIndexInformer, node string) []T {
	// The index exists, so that there is no error.
	found, _ := informer.GetIndexer().ByIndex(byNode, node)
	out := make([]T, len(found))
	for i := range found {
		out[i] = found[i].(T)
	}
	return out
}
