package detach

import (
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

var stories = []story{
	{"asked-by-annotation", "A rollout asks for a node by its annotation. It is marked before anything is taken out, says when its traffic has stopped, and gets back what it had when the rollout lets go.",
		func(t *teller) {
			t.does("rollout", "annotates Node a: it is to be detached", ask, time.Minute)
			t.does("rollout", "takes its annotation off Node a", release, time.Minute)
		}},

	{"cordoned", "A node is cordoned: it goes away, so that its pods are stopped when its traffic has, those of the highest priority first. One that tolerates every taint is left, and a disruption budget is waited for.",
		func(t *teller) {
			t.nodes[0].Pods = []Pod{
				{Name: "log", UID: "log", Priority: -1, Daemon: true},
				{Name: "app", UID: budgeted, Priority: 10},
				{Name: "mesh", UID: "mesh", Daemon: true},
				{Name: "agent", UID: "agent", Priority: 100, Daemon: true, Tolerates: true},
			}
			t.does("admin", "cordons Node a", cordon, 2*time.Minute)
			t.does("admin", "uncordons Node a", func(a *simNode) { a.Cordoned = false }, time.Minute)
		}},

	{"webhook", "A load balancer of another kind is behind a webhook, which fails, then drains, then answers. The node is out only when both say so, and back only when both do.",
		func(t *teller) {
			t.nodes[0].Webhooks = []Webhook{{Name: "edge"}}
			t.replies = []reply{
				{"edge does not answer", func(w *Webhook, now time.Time) {
					w.Waits, w.RetryAt = "webhook edge failed: connection refused", now.Add(time.Second)
				}},
				{"edge still drains", func(w *Webhook, now time.Time) {
					w.Undone, w.Waits, w.RetryAt = true, "webhook edge is not done yet: 3 connections", now.Add(45*time.Second)
				}},
				{"edge says that it is out", func(w *Webhook, _ time.Time) { w.Detached, w.Undone, w.Waits = true, false, "" }},
				{"edge says that it is back", func(w *Webhook, _ time.Time) { w.Attached = true }},
			}
			t.does("rollout", "annotates Node a: it is to be detached", ask, time.Minute)
			t.does("rollout", "takes its annotation off Node a", release, time.Minute)
		}},

	{"taken-back-midway", "The rollout lets go while the targets leave. They are put back, and the node never says that its traffic has stopped.",
		func(t *teller) {
			t.does("rollout", "annotates Node a: it is to be detached", ask, 10*time.Second)
			t.does("rollout", "takes its annotation off Node a", release, time.Minute)
		}},

	{"too-few-others", "Two nodes are cordoned, and one has to stay attached: the second is held back until the first has returned.",
		func(t *teller) {
			t.does("admin", "cordons Node a", cordon, 20*time.Second)
			t.does("admin", "cordons Node b", func(*simNode) { t.nodes[1].Cordoned = true }, 40*time.Second)
			t.does("admin", "uncordons Node a", func(a *simNode) { a.Cordoned = false }, 90*time.Second)
		}},

	{"node-without-a-provider-id", "A Node is deleted and registers anew while it is out, and does not say at first which machine it is. Nothing is changed by that: it may be the one that was taken out, or another.",
		func(t *teller) {
			t.does("rollout", "annotates Node a: it is to be detached", ask, time.Minute)
			t.does("kubelet", "registers Node a anew, without a providerID", func(a *simNode) {
				a.registersAnew()
				a.Instance, a.Unnamed = "", true
			}, time.Minute)
			t.does("cloud", "says that Node a is the machine i-a", func(a *simNode) { a.Instance, a.Unnamed = "i-a", false }, time.Minute)
		}},

	{"another-machine", "A Node comes back on another machine while it is out. The new machine was never taken out: nothing is put back, and what was remembered is forgotten.",
		func(t *teller) {
			t.does("admin", "cordons Node a", cordon, time.Minute)
			t.does("machine", "of Node a is terminated", func(a *simNode) {
				a.Exists, a.GoneSince = false, t.now
				clear(a.targets)
			}, time.Minute)
			t.does("kubelet", "registers Node a on the machine i-new", func(a *simNode) {
				a.registersAnew()
				a.Instance = "i-new"
				t.register(a, "web")
			}, time.Minute)
		}},
}

func ask(n *simNode) { n.Annotations[v1alpha1.AnnotationNodeDetached] = "" }

func release(n *simNode) { delete(n.Annotations, v1alpha1.AnnotationNodeDetached) }

func cordon(n *simNode) { n.Cordoned = true }

// registersAnew makes a new Node of the name, on which nothing stands.
func (n *simNode) registersAnew() {
	n.Exists, n.Cordoned, n.Detaching, n.Taints = true, false, false, nil
	clear(n.Annotations)
	clear(n.Labels)
}
