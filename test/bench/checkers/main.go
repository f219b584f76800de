// Command checkers runs the real health checker of each simulated node: a watch of its
// Deployment and of its pods on a connection of its own, and the answers. Simulated nodes
// have loopback addresses, so one process can listen for all.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"

	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/server"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	namespace := flag.String("namespace", "", "namespace of the IngressDaemonSet")
	name := flag.String("name", "", "name of the IngressDaemonSet")
	port := flag.Int("port", 0, "health-check port")
	flag.Parse()
	// Each in a process of its own has too little to collect garbage often.
	debug.SetGCPercent(200)
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
	nodes, err := simulated(ctx, config)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	for _, n := range nodes {
		subject := nodehealth.Subject{Node: n.Name, Name: name}
		address := net.JoinHostPort(addressOf(&n), strconv.Itoa(port))
		if err := check(ctx, &running, config, namespace, subject, address); err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	return nil
}

func simulated(ctx context.Context, config *rest.Config) ([]corev1.Node, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "type=simulated"})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	return list.Items, nil
}

// check begins to answer for a node. The pods' own probes have nothing to ask on a
// simulated node, and are not made while the API server is there.
func check(ctx context.Context, running *sync.WaitGroup, config *rest.Config, namespace string, subject nodehealth.Subject, address string) error {
	l, err := server.Listen(ctx, address)
	if err != nil {
		return err
	}
	sources, err := server.NewSources(config, namespace, subject)
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	responder := server.NewResponder(log)
	watcher := server.NewWatcher(sources, subject, "", responder.Update, log)
	running.Go(func() { watcher.Run(ctx) })
	running.Go(func() { _ = responder.Serve(ctx, l) })
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
