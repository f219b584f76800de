package controller

import (
	"context"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kubelet is a node's that does what a test wants: kwok only knows kubelets that
// succeed at once.
type kubelet struct {
	node string
	// ready says whether the node is, starts whether pods are started, rejects
	// whether they are rejected, lingers whether they do not end.
	ready, starts, rejects, lingers atomic.Bool
	// rejected counts the pods that were.
	rejected atomic.Int32
}

// addKubelet adds a node with a kubelet that works.
func (f *fixture) addKubelet() *kubelet {
	f.Helper()
	k := &kubelet{node: f.ns + "-own"}
	k.ready.Store(true)
	k.starts.Store(true)
	f.addNode(k.node, func(n *corev1.Node) {
		delete(n.Annotations, kwokAnnotation)
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		n.Status.Allocatable = corev1.ResourceList{
			corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		}
		n.Status.Capacity = n.Status.Allocatable
	})
	// It works on after the test, whose namespace only goes when its pods do.
	go func() {
		for ; ; <-time.After(100 * time.Millisecond) {
			// What fails is tried again, as kubelets do.
			_ = k.work(context.Background(), f.ns)
		}
	}()
	return k
}

// work looks once at the node and the test's pods on it.
func (k *kubelet) work(ctx context.Context, namespace string) error {
	node := &corev1.Node{}
	if err := api.Get(ctx, client.ObjectKey{Name: k.node}, node); err != nil {
		return err
	}
	if c := &node.Status.Conditions[0]; isReady(node) != k.ready.Load() || time.Since(c.LastHeartbeatTime.Time) > 10*time.Second {
		c.Type, c.Status, c.LastHeartbeatTime = corev1.NodeReady, status(k.ready.Load()), metav1.Now()
		if err := api.Status().Update(ctx, node); err != nil {
			return err
		}
	}
	pods := &corev1.PodList{}
	if err := api.List(ctx, pods, client.InNamespace(namespace), client.MatchingFields{"spec.nodeName": k.node}); err != nil {
		return err
	}
	for i := range pods.Items {
		if err := k.tend(ctx, &pods.Items[i], node.Status.Addresses[0].Address); err != nil {
			return err
		}
	}
	return nil
}

func (k *kubelet) tend(ctx context.Context, pod *corev1.Pod, ip string) error {
	switch {
	case pod.DeletionTimestamp != nil && !k.lingers.Load():
		return api.Delete(ctx, pod, client.GracePeriodSeconds(0))
	case pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodPending:
		return nil
	case k.rejects.Load():
		k.rejected.Add(1)
		pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "OutOfcpu", "Node didn't have enough resource: cpu"
	case k.starts.Load():
		pod.Status.Phase, pod.Status.PodIPs, pod.Status.PodIP = corev1.PodRunning, []corev1.PodIP{{IP: ip}}, ip
		for _, t := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
		}
	default:
		return nil
	}
	return api.Status().Update(ctx, pod)
}

func status(ok bool) corev1.ConditionStatus {
	if ok {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}
