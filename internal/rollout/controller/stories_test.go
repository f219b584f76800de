package controller

import (
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
)

var stories = []story{
	{"detach-by-health-check", "Two nodes are updated one after the other. Health checks take each out of the load balancer first.", 2, byHealthCheck,
		func(t *teller) { t.newTemplate("r2", 2*time.Minute) }},

	{"detach-by-node-annotation", "A detacher takes each node out when it is asked to, and says when it has done so.", 2,
		func(s *v1alpha1.IngressDaemonSetSpec) { byAnnotation(s); s.HealthCheckNodePorts = nil },
		func(t *teller) { t.newTemplate("r2", 2*time.Minute) }},

	{"detach-by-both", "First the health checks fail, then a detacher is asked; both have their graces.", 1,
		func(s *v1alpha1.IngressDaemonSetSpec) {
			byBoth(s)
			s.UpdateStrategy.RollingUpdate.MinServingNodes = number(0)
		},
		func(t *teller) { t.newTemplate("r2", 2*time.Minute) }},

	{"degraded-with-surge", "Nodes stay in the load balancer: a new pod is ready before an old one goes.", 2, degradedMode,
		func(t *teller) { t.newTemplate("r2", time.Minute) }},

	{"canary-then-zones", "The canary goes first, then zone a, then zone b, then the node that has no zone. Two nodes may be out.", 5,
		func(s *v1alpha1.IngressDaemonSetSpec) {
			byHealthCheck(s)
			u := s.UpdateStrategy.RollingUpdate
			u.MaxUnavailableNodes, u.CanaryNodeSelector, u.Order.TopologyKey = number(2), map[string]string{"canary": "true"}, "zone"
		},
		func(t *teller) {
			labels := map[string]map[string]string{
				"n2": {"zone": "b"}, "n3": {"zone": "a"}, "n4": {"zone": "b", "canary": "true"}, "n5": {"zone": "a"},
			}
			for _, name := range t.order() {
				t.label(name, labels[name])
			}
			t.newTemplate("r2", 5*time.Minute)
		}},

	{"partition", "Half of the nodes stay at the old revision until the user lets them go.", 4,
		func(s *v1alpha1.IngressDaemonSetSpec) {
			byHealthCheck(s)
			s.UpdateStrategy.RollingUpdate.Partition = percent(50)
		},
		func(t *teller) {
			t.newTemplate("r2", 3*time.Minute)
			t.edit("sets partition to 25%", func(s *v1alpha1.IngressDaemonSetSpec) { s.UpdateStrategy.RollingUpdate.Partition = percent(25) }, 2*time.Minute)
		}},

	{"minimum-reached", "One of two nodes does not serve. The other is not taken out, because one node must always serve.", 2,
		func(s *v1alpha1.IngressDaemonSetSpec) {
			byHealthCheck(s)
			s.UpdateStrategy.RollingUpdate.MaxUnavailableNodes = number(2)
		},
		func(t *teller) {
			t.does("machine", "n1 loses power", func() { t.kill(t.nodes["n1"]) }, time.Minute)
			t.newTemplate("r2", time.Minute)
			t.does("machine", "n1 is started again", func() { t.revive(t.nodes["n1"]) }, 3*time.Minute)
		}},

	{"reverted-midway", "The user takes the change back while the first node is updated and the second is being detached.", 3, byHealthCheck,
		func(t *teller) {
			t.newTemplate("r2", 35*time.Second)
			t.newTemplate("r1", 2*time.Minute)
		}},

	{"paused-midway", "A node that is out when the user pauses is finished and attached again; no other is touched until the user resumes.", 2, byHealthCheck,
		func(t *teller) {
			t.newTemplate("r2", 5*time.Second)
			t.edit("pauses", func(s *v1alpha1.IngressDaemonSetSpec) { s.Paused = true }, time.Minute)
			t.edit("resumes", func(s *v1alpha1.IngressDaemonSetSpec) { s.Paused = false }, time.Minute)
		}},

	{"node-dies-in-its-turn", "A node dies while its pods are replaced. It keeps its place, so that no second node is taken out, until it is back.", 3, byHealthCheck,
		func(t *teller) {
			t.newTemplate("r2", 12*time.Second)
			t.does("machine", "n1 loses power", func() { t.kill(t.nodes["n1"]) }, 11*time.Minute)
			t.does("machine", "n1 is started again", func() { t.revive(t.nodes["n1"]) }, 3*time.Minute)
		}},

	{"annotation-forbidden-midway", "The operator does not permit the annotation any more while a node is asked by it. That node is finished, no other begins until it is permitted again.", 2,
		func(s *v1alpha1.IngressDaemonSetSpec) {
			byBoth(s)
			u := s.UpdateStrategy.RollingUpdate
			u.AnnotateNodeToDetach.Key, u.WaitForDetachmentByAnnotatedTimestamp.Key = "detached", "at"
		},
		func(t *teller) {
			t.detacher.keys = map[string]string{"detached": "at"}
			t.newTemplate("r2", 12*time.Second)
			t.does("operator", "restarts the controller without --detach-annotations", func() { t.forbid(true) }, time.Minute)
			t.does("operator", "restarts it with --detach-annotations=detached=at", func() { t.forbid(false) }, 3*time.Minute)
		}},

	{"detachment-times-out", "The detacher does not answer. The node is attached again and the rollout halts, until the user has mended it and resumes.", 2,
		func(s *v1alpha1.IngressDaemonSetSpec) {
			byBoth(s)
			s.UpdateStrategy.RollingUpdate.DetachTimeoutSeconds = new(int32(60))
		},
		func(t *teller) {
			t.does("detacher", "crashes", func() { t.detacher.answers = false }, 0)
			t.newTemplate("r2", 3*time.Minute)
			t.does("detacher", "is back", t.detacherReturns, time.Minute)
			t.edit("pauses", func(s *v1alpha1.IngressDaemonSetSpec) { s.Paused = true }, time.Second)
			t.edit("resumes", func(s *v1alpha1.IngressDaemonSetSpec) { s.Paused = false }, 3*time.Minute)
		}},

	{"rejected-while-older-pods-terminate", "New pods do not fit beside those that still terminate. They are not asked for again until those are gone.", 2, byHealthCheck,
		func(t *teller) {
			for _, name := range t.order() {
				t.nodes[name].capacity = 2
			}
			t.newTemplate("r2", 2*time.Minute)
		}},

	{"rejected-for-good", "A node that stays in the load balancer has no room for one more pod. Its old pods go on serving; the new one is tried ever more rarely, until there is room.", 1, degradedMode,
		func(t *teller) {
			t.does("machine", "n1 has room for 2 pods only", func() { t.nodes["n1"].capacity = 2 }, 0)
			t.newTemplate("r2", 20*time.Second)
			t.does("machine", "n1 has room for 3 pods", func() { t.nodes["n1"].capacity = 3 }, 2*time.Minute)
		}},

	{"rejected-one-by-one", "Pods are replaced one at a time where there is no room for one more. The new ones are tried in the places of those that have ended, then all are asked for.", 1,
		func(s *v1alpha1.IngressDaemonSetSpec) {
			s.UpdateStrategy.RollingUpdate.MaxUnavailablePodsPerNode = number(1)
			s.UpdateStrategy.RollingUpdate.MaxSurgedPodsPerNode = number(0)
		},
		func(t *teller) {
			t.nodes["n1"].capacity = 2
			t.newTemplate("r2", 2*time.Minute)
		}},

	{"analysed-and-passed", "Each wave is measured twice before the next begins.", 2, analysed,
		func(t *teller) { t.newTemplate("r2", 3*time.Minute) }},

	{"analysed-and-rolled-back", "The canary node misbehaves with the new template. The template is rejected, the node gets the old pods again, and no other node is touched until the template changes.", 3,
		func(s *v1alpha1.IngressDaemonSetSpec) {
			analysed(s)
			s.UpdateStrategy.RollingUpdate.FailurePolicy = v1alpha1.RollBackOnFailure
		},
		func(t *teller) {
			t.spoil("r2", t.misbehaves)
			t.newTemplate("r2", 3*time.Minute)
			t.newTemplate("r3", 3*time.Minute)
		}},

	{"analysed-and-paused", "A wave fails its analysis and no policy says to roll back: the rollout stands still until somebody promotes it.", 2, analysed,
		func(t *teller) {
			t.spoil("r2", t.misbehaves)
			t.newTemplate("r2", 2*time.Minute)
			t.does("user", "promotes the rollout", t.promote, 2*time.Minute)
		}},

	{"never-ready-and-rolled-back", "The new pods never become ready. After the deadline the node gets the old ones again; it cost no second node.", 3,
		func(s *v1alpha1.IngressDaemonSetSpec) {
			byHealthCheck(s)
			s.ProgressDeadlineSeconds = new(int32(60))
			s.UpdateStrategy.RollingUpdate.FailurePolicy = v1alpha1.RollBackOnFailure
		},
		func(t *teller) {
			t.spoil("r2", t.bad)
			t.newTemplate("r2", 4*time.Minute)
		}},

	{"drained-by-somebody", "Somebody drains a node. The controller does not fight: it detaches the node, stops its pods, and brings them back when the node is uncordoned.", 2, byHealthCheck,
		func(t *teller) {
			t.does("admin", "cordons n1 and evicts its pods", func() { t.cordon(t.nodes["n1"], true); t.evict("n1", false) }, time.Minute)
			t.does("admin", "uncordons n1", func() { t.cordon(t.nodes["n1"], false) }, time.Minute)
		}},

	{"kept-out-by-hand", "Somebody wants a node out for maintenance, and changes the template meanwhile. The node is updated when it may come back.", 3,
		func(s *v1alpha1.IngressDaemonSetSpec) {
			byHealthCheck(s)
			s.UpdateStrategy.RollingUpdate.MaxUnavailableNodes = number(2)
		},
		func(t *teller) {
			t.does("operator", "detaches n1", func() { t.keepOut(t.nodes["n1"], true) }, time.Minute)
			t.newTemplate("r2", 2*time.Minute)
			t.does("operator", "attaches n1", func() { t.keepOut(t.nodes["n1"], false) }, time.Minute)
		}},

	{"deleted-in-waves", "The IngressDaemonSet is deleted. Each node is detached before its pods go, the health checkers go last.", 2, byBoth,
		func(t *teller) {
			t.does("user", "deletes the IngressDaemonSet", func() { t.remove(rollout.DeleteInWaves) }, 2*time.Minute)
		}},

	{"node-joins-midway", "A node that joins in the middle of a rollout gets new pods at once. It counts against the budget until it serves.", 2, byHealthCheck,
		func(t *teller) {
			t.newTemplate("r2", 20*time.Second)
			t.does("machine", "n0 joins", func() { t.addNode("n0", nil) }, 2*time.Minute)
		}},

	{"node-leaves-midway", "The label that put a node into the set is removed. The node is detached before its pods go.", 2,
		func(s *v1alpha1.IngressDaemonSetSpec) { byBoth(s) },
		func(t *teller) {
			t.does("admin", "takes n1 out of the node set", func() { t.setWanted(t.nodes["n1"], false) }, time.Minute)
		}},

	{"checkers-replaced-first", "A new controller brings new health checkers. They are replaced before the next node is taken out, never while one is out.", 2, byHealthCheck,
		func(t *teller) {
			t.newTemplate("r2", 5*time.Second)
			t.does("admin", "installs a new controller", t.upgrade, 3*time.Minute)
		}},

	{"controller-dies-midway", "The controller dies between the detachment of a node and the update of its pods. The next one carries on from the objects alone.", 2, byHealthCheck,
		func(t *teller) {
			t.newTemplate("r2", 5*time.Second)
			t.does("controller", "is killed; another one takes over 30 s later", func() { t.leaders[0].dies(30 * time.Second) }, 2*time.Minute)
		}},
}
