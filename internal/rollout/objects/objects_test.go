package objects

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func named(name string) v1alpha1.IngressDaemonSet {
	return v1alpha1.IngressDaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: name, UID: "uid"}}
}

// proxy has everything in its template that is changed for a node.
func proxy() *v1alpha1.IngressDaemonSet {
	set := named("proxy")
	http := func(port string) *corev1.HTTPGetAction { return &corev1.HTTPGetAction{Port: intstr.FromString(port)} }
	tcp := func(port string) *corev1.TCPSocketAction {
		return &corev1.TCPSocketAction{Port: intstr.FromString(port)}
	}
	set.Spec = v1alpha1.IngressDaemonSetSpec{
		HealthCheckNodePorts: []int32{10080},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "proxy"}, Annotations: map[string]string{"a": "b"}},
			Spec: corev1.PodSpec{
				HostNetwork: true,
				InitContainers: []corev1.Container{{
					Name: "sidecar", Image: "sidecar", Ports: []corev1.ContainerPort{{Name: "side", ContainerPort: 9000}},
					StartupProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: tcp("side")}},
				}},
				Containers: []corev1.Container{{
					Name: "proxy", Image: "proxy", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}, {Name: "admin", ContainerPort: 8080}},
					ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: http("admin")}},
					LivenessProbe:  &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: tcp("http")}},
					StartupProbe:   &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}},
					Lifecycle: &corev1.Lifecycle{
						PostStart: &corev1.LifecycleHandler{TCPSocket: tcp("admin")},
						PreStop:   &corev1.LifecycleHandler{HTTPGet: http("unknown")},
					},
				}},
			},
		},
	}
	return &set
}

func pods(set *v1alpha1.IngressDaemonSet) Pods {
	return Pods{Revision: "r1", Template: Template(set), Replicas: 2, PerNode: 2, UpdatedAt: time.Unix(0, 0)}
}

// TestPorts takes declared ports from host-network pods, after every name that
// stands for one is resolved. A name that stands for none is left for the API
// server to refuse.
func TestPorts(t *testing.T) {
	set := proxy()
	before := set.DeepCopy()
	spec := Deployment(set, "node", "proxy-node", pods(set)).Spec.Template.Spec
	c, sidecar := spec.Containers[0], spec.InitContainers[0]
	for what, got := range map[string]intstr.IntOrString{
		"8080": c.ReadinessProbe.HTTPGet.Port, "80": c.LivenessProbe.TCPSocket.Port,
		"8080 ": c.Lifecycle.PostStart.TCPSocket.Port, "unknown": c.Lifecycle.PreStop.HTTPGet.Port,
		"9000": sidecar.StartupProbe.TCPSocket.Port,
	} {
		if got.String() != strings.TrimSpace(what) {
			t.Errorf("got %s, want %s", got.String(), what)
		}
	}
	if c.Ports != nil || sidecar.Ports != nil {
		t.Errorf("ports are left: %v, %v", c.Ports, sidecar.Ports)
	}
	if diff := cmp.Diff(before, set); diff != "" {
		t.Errorf("the IngressDaemonSet was changed:\n%s", diff)
	}
	set.Spec.Template.Spec.HostNetwork = false
	if spec := Deployment(set, "node", "proxy-node", pods(set)).Spec.Template.Spec; len(spec.Containers[0].Ports) != 2 {
		t.Error("a pod of its own network lost its ports")
	}
	set.Spec.Template.Spec.HostNetwork, set.Spec.PodPlacement = true, v1alpha1.PlaceByScheduler
	if spec := Deployment(set, "node", "proxy-node", pods(set)).Spec.Template.Spec; len(spec.Containers[0].Ports) != 2 || spec.NodeName != "" {
		t.Error("a pod that the scheduler places lost its ports")
	}
}

// TestRevision pins the hash of a template: were it another in a new version of
// the controller, every proxy would be restarted by its installation.
func TestRevision(t *testing.T) {
	revision := Revision(Template(proxy()))
	if want := "26fa84f684"; revision != want {
		t.Errorf("got %s, want %s", revision, want)
	}
	for what, change := range map[string]func(*v1alpha1.IngressDaemonSet){
		"podsPerNode":  func(s *v1alpha1.IngressDaemonSet) { s.Spec.PodsPerNode = new(int32(5)) },
		"paused":       func(s *v1alpha1.IngressDaemonSet) { s.Spec.Paused = true },
		"empty values": func(s *v1alpha1.IngressDaemonSet) { s.Spec.Template.Spec.Volumes = []corev1.Volume{} },
		"the same name": func(s *v1alpha1.IngressDaemonSet) {
			s.Spec.Selector = &v1alpha1.Selector{MatchLabels: map[string]string{"app": "proxy"}}
		},
	} {
		set := proxy()
		if change(set); Revision(Template(set)) != revision {
			t.Errorf("%s: makes a new revision", what)
		}
	}
	for what, change := range map[string]func(*v1alpha1.IngressDaemonSet){
		"image":      func(s *v1alpha1.IngressDaemonSet) { s.Spec.Template.Spec.Containers[0].Image = "other" },
		"annotation": func(s *v1alpha1.IngressDaemonSet) { s.Spec.Template.Annotations["a"] = "c" },
		"matchLabels": func(s *v1alpha1.IngressDaemonSet) {
			s.Spec.Selector = &v1alpha1.Selector{MatchLabels: map[string]string{"b": "c"}}
		},
		"false": func(s *v1alpha1.IngressDaemonSet) { s.Spec.Template.Spec.EnableServiceLinks = new(bool) },
	} {
		set := proxy()
		if change(set); Revision(Template(set)) == revision {
			t.Errorf("%s: makes no new revision", what)
		}
	}
}

// TestRecord gives a template back as it was, under the hash that it has.
func TestRecord(t *testing.T) {
	set := proxy()
	cr, err := ControllerRevision(set, Revision(Template(set)), 7)
	if err != nil {
		t.Fatal(err)
	}
	template, err := RecordedTemplate(cr)
	if err != nil || Revision(template) != cr.Labels[v1alpha1.LabelRevision] {
		t.Errorf("the record has revision %s instead of %s, %v", Revision(template), cr.Labels[v1alpha1.LabelRevision], err)
	}
	if diff := cmp.Diff(Template(set), template); diff != "" {
		t.Error(diff)
	}
	cr.Data.Raw = []byte("{")
	if _, err := RecordedTemplate(cr); err == nil || !strings.Contains(err.Error(), cr.Name) {
		t.Errorf("a broken record: %v", err)
	}
}

func TestNames(t *testing.T) {
	a, ab := named("a"), named("a-b")
	long := strings.Repeat("n", 250)
	dashed, dotted := long[:228]+"-n"+long[230:], long[:228]+".n"+long[230:]
	for _, c := range []struct {
		set   *v1alpha1.IngressDaemonSet
		node  string
		taken bool
		want  string
	}{
		{&a, "b-c", false, "a-b-c"},
		{&ab, "c", false, "a-b-c"},
		{&a, "b-c", true, "a-b-c-" + digest([]byte("a/b-c"), 10)},
		{&ab, "c", true, "a-b-c-" + digest([]byte("a-b/c"), 10)},
		{&a, long, false, "a-" + long[:229] + "-" + digest([]byte("a/"+long), 10)},
		{&a, dashed, false, "a-" + dashed[:229] + "-" + digest([]byte("a/"+dashed), 10)},
		{&a, dotted, false, "a-" + dotted[:228] + "-" + digest([]byte("a/"+dotted), 10)},
	} {
		if got := DeploymentName(c.set, c.node, c.taken); got != c.want || len(got) > 242 {
			t.Errorf("%s on %s: got %s (%d), want %s", c.set.Name, c.node, got, len(got), c.want)
		}
	}
}

func TestStrategy(t *testing.T) {
	rolling := func(unavailable, surge string) appsv1.DeploymentStrategy {
		return appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxUnavailable: new(intstr.Parse(unavailable)), MaxSurge: new(intstr.Parse(surge)),
		}}
	}
	for what, c := range map[string]struct {
		change func(*v1alpha1.IngressDaemonSetSpec)
		held   rollout.Rolling
		want   appsv1.DeploymentStrategy
	}{
		"degraded":  {func(*v1alpha1.IngressDaemonSetSpec) {}, rollout.Rolling{}, rolling("0", "1")},
		"held back": {func(*v1alpha1.IngressDaemonSetSpec) {}, rollout.Rolling{Unavailable: 3}, rolling("3", "0")},
		"detaching": {func(s *v1alpha1.IngressDaemonSetSpec) {
			s.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{MaxUnavailableNodes: new(intstr.FromInt32(1))}
		}, rollout.Rolling{}, rolling("100%", "0")},
		"host port": {func(s *v1alpha1.IngressDaemonSetSpec) {
			s.Template.Spec.HostNetwork = false
			s.Template.Spec.Containers[0].Ports[0].HostPort = 80
		}, rollout.Rolling{Surge: 1}, appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}},
		"host network": {func(s *v1alpha1.IngressDaemonSetSpec) { s.Template.Spec.Containers[0].Ports[0].HostPort = 80 }, rollout.Rolling{}, rolling("0", "1")},
	} {
		set := proxy()
		c.change(&set.Spec)
		p := pods(set)
		p.Rolling = c.held
		d := Deployment(set, "node", "name", p)
		if diff := cmp.Diff(c.want, d.Spec.Strategy); diff != "" {
			t.Errorf("%s:\n%s", what, diff)
		}
	}
}

// TestHold remembers a hold on the Deployment.
func TestHold(t *testing.T) {
	p := pods(proxy())
	p.Hold = &v1alpha1.Hold{Attempts: 2, Revision: "r1", Reason: "OutOfcpu", Replicas: 1}
	var got v1alpha1.Hold
	if err := json.Unmarshal([]byte(Deployment(proxy(), "node", "name", p).Annotations[v1alpha1.AnnotationHold]), &got); err != nil || got != *p.Hold {
		t.Errorf("got %v, %v", got, err)
	}
	p.Hold = nil
	if _, held := Deployment(proxy(), "node", "name", p).Annotations[v1alpha1.AnnotationHold]; held {
		t.Error("a hold without one")
	}
}

// TestHoldOfAPausedDeployment: it tries nothing, though somebody wrote so, and would be left at that
// for ever.
func TestHoldOfAPausedDeployment(t *testing.T) {
	for _, paused := range []bool{false, true} {
		p := pods(proxy())
		p.Hold = &v1alpha1.Hold{Attempts: 1, Revision: "r1", Trying: true}
		d := Deployment(proxy(), "node", "name", p)
		d.Spec.Paused = paused
		if got := ReaderOf(proxy()).deployment(d); got.Hold == nil || got.Hold.Trying == paused {
			t.Errorf("paused is %t: %+v", paused, got.Hold)
		}
	}
}

// TestGarbledDrain: the planner sees as much of a drain, and of how many pods make a node serve,
// as the health checkers do.
func TestGarbledDrain(t *testing.T) {
	for _, value := range []string{"", "-1", "yes"} {
		d := Deployment(proxy(), "node", "name", pods(proxy()))
		d.Annotations[v1alpha1.AnnotationDrainedAt], d.Annotations[v1alpha1.AnnotationPodsPerNode] = value, value
		if got := ReaderOf(proxy()).deployment(d); !got.Drained || !got.DrainedAt.IsZero() || got.PodsPerNode != 0 {
			t.Errorf("%q is read as drained %t at %s, with %d pods", value, got.Drained, got.DrainedAt, got.PodsPerNode)
		}
	}
}

// TestTolerations are those of daemon pods, each once, beside the user's.
func TestTolerations(t *testing.T) {
	own := []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: "x", Value: "y"},
	}
	for hostNetwork, want := range map[bool]int{true: 8, false: 7} {
		got := daemonTolerations(&corev1.PodSpec{HostNetwork: hostNetwork, Tolerations: own})
		if len(got) != want || !reflect.DeepEqual(got[:2], own) {
			t.Errorf("host network %t: %v", hostNetwork, got)
		}
	}
}

// TestTolerationsForATime: pods stay on a node that is not ready for as long as it is
// not, as those of a DaemonSet, and not only for as long as the template says.
func TestTolerationsForATime(t *testing.T) {
	forATime := corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))}
	other := corev1.Toleration{Key: "x", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))}
	got := daemonTolerations(&corev1.PodSpec{Tolerations: []corev1.Toleration{forATime, other}})
	for i, tol := range got {
		if tol.Key == corev1.TaintNodeNotReady && tol.TolerationSeconds != nil || tol.TolerationSeconds != nil && i > 0 {
			t.Errorf("toleration %d is %v", i, tol)
		}
	}
	if len(got) != 7 || !reflect.DeepEqual(got[0], other) {
		t.Errorf("got %v", got)
	}
}

// TestDeleted: a pod's deletion is told by when its grace will be over.
func TestDeleted(t *testing.T) {
	over := metav1.Now()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &over, DeletionGracePeriodSeconds: new(int64(30))}}
	if got := readPod(pod).Deleted; !got.Equal(over.Add(-30 * time.Second)) {
		t.Errorf("it was deleted at %s", got)
	}
	if got := readPod(&corev1.Pod{}).Deleted; !got.IsZero() {
		t.Errorf("one that was not was deleted at %s", got)
	}
}

// TestLostLabels: a Deployment that lacks a label by which others find it is outmoded.
func TestLostLabels(t *testing.T) {
	set := proxy()
	d := Deployment(set, "n", "proxy-n", Pods{Replicas: 1, PerNode: 1})
	if n, err := ReaderOf(set).Node("n", nil, d, nil); err != nil || n.Deployment.Outmoded {
		t.Fatalf("as it should be: %+v, %v", n.Deployment, err)
	}
	delete(d.Labels, v1alpha1.LabelNode)
	if n, err := ReaderOf(set).Node("n", nil, d, nil); err != nil || !n.Deployment.Outmoded {
		t.Errorf("without its label: %+v, %v", n.Deployment, err)
	}
}

// TestTainted: a taint counts that takes pods away, also from a node that stays in the set.
func TestTainted(t *testing.T) {
	seconds := corev1.Toleration{Key: "x", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(60))}
	for name, c := range map[string]struct {
		taint       corev1.Taint
		tolerations []corev1.Toleration
		want        bool
	}{
		"not tolerated":        {corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoExecute}, nil, true},
		"tolerated":            {corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoExecute}, []corev1.Toleration{{Key: "x", Operator: corev1.TolerationOpExists}}, false},
		"tolerated for a time": {corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoExecute}, []corev1.Toleration{seconds}, true},
		"NoSchedule":           {corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoSchedule}, []corev1.Toleration{seconds}, false},
		"of a node that goes":  {corev1.Taint{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoExecute}, nil, true},
		"not ready":            {corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}, nil, false},
	} {
		set := proxy()
		set.Spec.Template.Spec.Tolerations = c.tolerations
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{c.taint}}}
		if got, err := ReaderOf(set).Node("n", node, nil, nil); got.Tainted != c.want || err != nil {
			t.Errorf("%s: %t, want %t, %v", name, got.Tainted, c.want, err)
		}
	}
}

func TestNodeSet(t *testing.T) {
	taint := func(key string, effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: "v", Effect: effect})
		}
	}
	tolerate := func(t corev1.Toleration) func(*v1alpha1.IngressDaemonSet) {
		return func(s *v1alpha1.IngressDaemonSet) { s.Spec.Template.Spec.Tolerations = []corev1.Toleration{t} }
	}
	none := func(*v1alpha1.IngressDaemonSet) {}
	for what, c := range map[string]struct {
		set          func(*v1alpha1.IngressDaemonSet)
		node         func(*corev1.Node)
		new, present bool
	}{
		"plain":               {none, func(*corev1.Node) {}, true, true},
		"spec.nodeSelector":   {func(s *v1alpha1.IngressDaemonSet) { s.Spec.NodeSelector = map[string]string{"x": ""} }, func(*corev1.Node) {}, false, false},
		"template's selector": {func(s *v1alpha1.IngressDaemonSet) { s.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "b"} }, func(*corev1.Node) {}, false, false},
		"both selectors": {func(s *v1alpha1.IngressDaemonSet) {
			s.Spec.NodeSelector = map[string]string{"zone": "a"}
			s.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "a"}
		}, func(*corev1.Node) {}, true, true},
		"NoSchedule":           {none, taint("x", corev1.TaintEffectNoSchedule), false, true},
		"NoExecute":            {none, taint("x", corev1.TaintEffectNoExecute), false, false},
		"PreferNoSchedule":     {none, taint("x", corev1.TaintEffectPreferNoSchedule), true, true},
		"tolerated":            {tolerate(corev1.Toleration{Key: "x", Value: "v"}), taint("x", corev1.TaintEffectNoExecute), true, true},
		"other value":          {tolerate(corev1.Toleration{Key: "x", Value: "w"}), taint("x", corev1.TaintEffectNoExecute), false, false},
		"other effect":         {tolerate(corev1.Toleration{Key: "x", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}), taint("x", corev1.TaintEffectNoExecute), false, false},
		"everything tolerated": {tolerate(corev1.Toleration{Operator: corev1.TolerationOpExists}), taint("x", corev1.TaintEffectNoExecute), true, true},
		"tolerated for a time": {tolerate(corev1.Toleration{Key: "x", Value: "v", TolerationSeconds: new(int64(60))}), taint("x", corev1.TaintEffectNoExecute), false, false},
		"unreachable":          {none, taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute), true, true},
		"unreachable, for a time": {tolerate(corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(60))}),
			taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute), true, true},
		"cordoned":            {none, taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule), true, true},
		"about to be removed": {none, taint("karpenter.sh/disrupted", corev1.TaintEffectNoSchedule), true, true},
	} {
		set := proxy()
		c.set(set)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "a"}}}
		c.node(node)
		for present, want := range map[bool]bool{false: c.new, true: c.present} {
			if got, err := NodeSetOf(set).Wants(node, present); got != want || err != nil {
				t.Errorf("%s, present %t: got %t, want %t, %v", what, present, got, want, err)
			}
		}
	}
	set := proxy()
	set.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: "Near"}}}},
	}}}
	for _, present := range []bool{true, false} {
		d := &appsv1.Deployment{}
		if !present {
			d = nil
		}
		if n, err := ReaderOf(set).Node("n", &corev1.Node{}, d, nil); err == nil || n.Wanted != present || !n.Exists {
			t.Errorf("with a Deployment %t: %+v, %v", present, n, err)
		}
	}
	if _, err := NodeSetOf(set).Wants(&corev1.Node{}, false); err == nil {
		t.Error("an impossible operator is no error")
	}
}

// TestPodReady believes the containers where the node lifecycle controller gave
// up on the node, but no failing readiness gate.
func TestPodReady(t *testing.T) {
	for what, c := range map[string]struct {
		ready, containers, gate corev1.ConditionStatus
		want                    bool
	}{
		"ready":                  {"True", "True", "", true},
		"cut off from the API":   {"False", "True", "", true},
		"containers not ready":   {"False", "False", "", false},
		"gate passes":            {"True", "True", "True", true},
		"gate fails":             {"False", "True", "False", false},
		"gate has not been seen": {"False", "True", "absent", false},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: c.ready}, {Type: corev1.ContainersReady, Status: c.containers},
		}}}
		if c.gate != "" {
			pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "gate"}}
		}
		if c.gate != "absent" {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "gate", Status: c.gate})
		}
		if got := PodReady(pod); got != c.want {
			t.Errorf("%s: got %t", what, got)
		}
	}
}

func TestServiceFault(t *testing.T) {
	good := func() *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: corev1.ServiceSpec{ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal}}
	}
	if fault := ServiceFault(good()); fault != "" {
		t.Error(fault)
	}
	selects, cluster := good(), good()
	selects.Spec.Selector = map[string]string{"a": "b"}
	cluster.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	for svc, want := range map[*corev1.Service]string{selects: "remove spec.selector", cluster: "must have externalTrafficPolicy Local"} {
		if fault := ServiceFault(svc); !strings.Contains(fault, want) {
			t.Errorf("got %q, want %s", fault, want)
		}
	}
}

// TestEndpointSlices publishes pods of the Service's family that may serve.
func TestEndpointSlices(t *testing.T) {
	set := proxy()
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
		{Name: "named", Port: 1, TargetPort: intstr.FromString("http")}, {Name: "number", Port: 2, TargetPort: intstr.FromInt32(8443)}, {Name: "same", Port: 3},
	}}}
	published := Publication{Set: set, Service: svc, Templates: map[string]*corev1.PodSpec{"r1": &set.Spec.Template.Spec}}
	slice := func(pods []*corev1.Pod, marked bool) *discoveryv1.EndpointSlice {
		made := published.EndpointSlices("node", pods, marked)
		if len(made) != 1 {
			t.Fatalf("%d slices", len(made))
		}
		return made[0]
	}
	pod := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelRevision: "r1"}}, Status: corev1.PodStatus{
			PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: "True"}},
		}}
		change(p)
		return p
	}
	all := []*corev1.Pod{
		pod("terminating", func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }),
		pod("ready", func(*corev1.Pod) {}),
		pod("failed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		pod("pending", func(p *corev1.Pod) { p.Status = corev1.PodStatus{} }),
		pod("unready", func(p *corev1.Pod) { p.Status.Conditions = nil }),
	}
	flags := func(s *discoveryv1.EndpointSlice) map[string][3]bool {
		out := map[string][3]bool{}
		for _, e := range s.Endpoints {
			out[e.TargetRef.Name+" "+e.Addresses[0]] = [3]bool{*e.Conditions.Ready, *e.Conditions.Serving, *e.Conditions.Terminating}
		}
		return out
	}
	s := slice(all, false)
	want := map[string][3]bool{"ready 10.0.0.1": {true, true, false}, "terminating 10.0.0.1": {false, true, true}, "unready 10.0.0.1": {false, false, false}}
	if diff := cmp.Diff(want, flags(s)); diff != "" {
		t.Error(diff)
	}
	var ports []int32
	for _, p := range s.Ports {
		ports = append(ports, *p.Port)
	}
	if diff := cmp.Diff([]int32{80, 8443, 3}, ports); diff != "" {
		t.Error(diff)
	}
	svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
	six := slice(all, true)
	want = map[string][3]bool{"ready fd00::1": {false, true, true}, "terminating fd00::1": {false, true, true}, "unready fd00::1": {false, false, true}}
	if diff := cmp.Diff(want, flags(six)); diff != "" || six.AddressType != discoveryv1.AddressTypeIPv6 || six.Name == s.Name {
		t.Errorf("%s %s %s", six.Name, six.AddressType, diff)
	}
	if none := published.EndpointSlices("node", all[2:4], false); len(none) > 0 {
		t.Errorf("nothing to publish: %v", none)
	}
}

// TestEndpointSlicesOfRevisions publishes each pod on the ports of its own template.
// Where that does not tell, it is published as it was, and never on a port that nobody
// may listen on.
func TestEndpointSlicesOfRevisions(t *testing.T) {
	declares := func(ports ...corev1.ContainerPort) *corev1.PodSpec {
		return &corev1.PodSpec{Containers: []corev1.Container{{Name: "logs"}, {Name: "proxy", Ports: ports}}}
	}
	http := func(number int32) corev1.ContainerPort {
		return corev1.ContainerPort{Name: "http", ContainerPort: number}
	}
	p := Publication{
		Set: proxy(),
		Service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
			{Name: "plain", Port: 80, TargetPort: intstr.FromString("http")}, {Name: "tls", Port: 443, TargetPort: intstr.FromString("https")},
		}}},
		Templates: map[string]*corev1.PodSpec{
			"old": declares(http(8080), corev1.ContainerPort{Name: "https", ContainerPort: 8443}),
			"new": declares(http(9090), corev1.ContainerPort{Name: "https", ContainerPort: 8443}),
			// Another image with the same ports.
			"newer":   declares(http(9090), corev1.ContainerPort{Name: "https", ContainerPort: 8443}),
			"half":    declares(http(8080)),
			"none":    declares(),
			"sidecar": {InitContainers: declares(http(7070)).Containers},
		},
		Published: map[string][]discoveryv1.EndpointPort{"none": {{Name: new("plain"), Port: new(int32(8081))}}},
	}
	published := func(revisions ...string) map[string]string {
		var pods []*corev1.Pod
		for _, revision := range revisions {
			pod := withAddress("10.0.0.1")
			pod.Name, pod.Labels = revision, map[string]string{v1alpha1.LabelRevision: revision}
			pods = append(pods, pod)
		}
		out, names := map[string]string{}, map[string]bool{}
		for _, s := range p.EndpointSlices("node", pods, false) {
			var ports []string
			for _, port := range s.Ports {
				ports = append(ports, fmt.Sprintf("%s=%d", *port.Name, *port.Port))
			}
			for _, e := range s.Endpoints {
				out[e.TargetRef.Name] = strings.Join(ports, " ")
			}
			if names[s.Name] {
				t.Errorf("two slices are named %s", s.Name)
			}
			names[s.Name] = true
		}
		return out
	}
	want := map[string]string{
		"old": "plain=8080 tls=8443", "new": "plain=9090 tls=8443", "newer": "plain=9090 tls=8443",
		"half": "plain=8080", "none": "plain=8081", "sidecar": "plain=7070",
	}
	if diff := cmp.Diff(want, published("unknown", "old", "new", "newer", "half", "none", "sidecar")); diff != "" {
		t.Error(diff)
	}
	if both := p.EndpointSlices("node", nil, false); len(both) > 0 {
		t.Errorf("nothing to publish: %v", both)
	}
	for revision, want := range map[string]string{"old": "", "half": "https", "none": "http https", "unknown": "http https"} {
		if got := strings.Join(MissingTargetPorts(p.Service, p.Templates[revision]), " "); got != want {
			t.Errorf("of %s is missing %q, want %q", revision, got, want)
		}
	}
}

// TestChecker follows the pods that it is for, holds no port, and is another when
// anything of it changes.
func TestChecker(t *testing.T) {
	set := proxy()
	set.Spec.NodeSelector = map[string]string{"edge": "yes"}
	set.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "a"}
	set.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "edge", Operator: corev1.TolerationOpExists}}
	set.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}, NodeAffinity: &corev1.NodeAffinity{}}
	set.Spec.Template.Spec.PriorityClassName = "edge"
	ds := Checker(set, 10080, "image")
	spec := ds.Spec.Template.Spec
	if ds.Name != "proxy-10080" || !spec.HostNetwork || spec.Containers[0].Ports != nil || spec.Containers[0].Image != "image" || spec.PriorityClassName != "edge" {
		t.Errorf("%s: %v", ds.Name, spec)
	}
	if diff := cmp.Diff(map[string]string{"edge": "yes", "zone": "a"}, spec.NodeSelector); diff != "" {
		t.Error(diff)
	}
	if spec.Affinity.PodAntiAffinity != nil || spec.Affinity.NodeAffinity == nil || !reflect.DeepEqual(spec.Tolerations, set.Spec.Template.Spec.Tolerations) {
		t.Errorf("affinity %v, tolerations %v", spec.Affinity, spec.Tolerations)
	}
	if u := ds.Spec.UpdateStrategy.RollingUpdate; u.MaxUnavailable.IntValue() != 0 || u.MaxSurge.String() != "100%" {
		t.Errorf("strategy %v", u)
	}
	revision := func(ds *appsv1.DaemonSet) string {
		return ds.Spec.Template.Labels[v1alpha1.LabelHealthCheckerRevision]
	}
	if revision(Checker(set, 10080, "image")) != revision(ds) || revision(Checker(set, 10080, "other")) == revision(ds) {
		t.Error("the revision does not follow the image")
	}
	set.Spec.HealthChecker = v1alpha1.HealthChecker{Image: "own", ServiceAccountName: "mine", Tolerations: []corev1.Toleration{}}
	spec = Checker(set, 10080, "image").Spec.Template.Spec
	if spec.Containers[0].Image != "own" || spec.ServiceAccountName != "mine" || len(spec.Tolerations) != 0 || CheckerServiceAccount(set) != nil {
		t.Errorf("%v", spec)
	}
}

// TestDrainHook asks the first health checker before each container stops, is part of
// the revision, and changes nothing where it is not wanted.
func TestDrainHook(t *testing.T) {
	set := proxy()
	set.Spec.HealthCheckNodePorts = []int32{10080, 10081}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a"}, {Name: "b", Lifecycle: &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}}}}
	without, plain := Revision(Template(set)), Checker(set, 10080, "image")
	set.Spec.DrainHook = &v1alpha1.DrainHook{StopSeconds: new(int32(7))}
	for _, hostNetwork := range []bool{true, false} {
		set.Spec.Template.Spec.HostNetwork = hostNetwork
		template := Template(set)
		// Without a host a kubelet asks nobody for a pod of the host network.
		want := &corev1.HTTPGetAction{Path: "/?drain", Port: intstr.FromInt32(10080), Host: "127.0.0.1"}
		for _, c := range template.Spec.Containers {
			if diff := cmp.Diff(want, c.Lifecycle.PreStop.HTTPGet); diff != "" {
				t.Errorf("container %s, hostNetwork %t: %s", c.Name, hostNetwork, diff)
			}
		}
		if template.Annotations["cluster-autoscaler.kubernetes.io/daemonset-pod"] != "true" || template.Spec.Containers[1].Lifecycle.PostStart == nil {
			t.Errorf("%+v", template)
		}
		if Revision(template) == without {
			t.Error("the hook is not part of the revision")
		}
	}
	if set.Spec.Template.Spec.Containers[0].Lifecycle != nil {
		t.Error("the user's template was changed")
	}
	spec := Checker(set, 10080, "image").Spec.Template.Spec
	if args := spec.Containers[0].Args; !slices.Contains(args, "--drain-grace=10s") || !slices.Contains(args, "--drain-linger=10s") || !slices.Contains(args, "--drain-stop=7s") {
		t.Errorf("arguments %v", args)
	}
	if got, want := *spec.TerminationGracePeriodSeconds, *plain.Spec.Template.Spec.TerminationGracePeriodSeconds+40; got != want {
		t.Errorf("the health checker has %d s to end, want %d", got, want)
	}
	if slices.ContainsFunc(plain.Spec.Template.Spec.Containers[0].Args, func(a string) bool { return strings.HasPrefix(a, "--drain") }) {
		t.Error("a health checker without a drain hook is told of one")
	}
}

// TestDrainHookWaitsForWhatTheLoadBalancerNeeds, also where a rollout asks a detacher first:
// who drains a node asks nobody.
func TestDrainHookWaitsForWhatTheLoadBalancerNeeds(t *testing.T) {
	set := proxy()
	set.Spec.DrainHook = &v1alpha1.DrainHook{}
	for _, fail := range []v1alpha1.FailHealthChecks{"", v1alpha1.FailAfterDetachment} {
		set.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{
			MaxUnavailableNodes:        new(intstr.FromInt32(1)),
			AnnotateDeploymentToDetach: &v1alpha1.AnnotateDeploymentToDetach{GracePeriodSeconds: new(int32(60))},
			FailHealthChecks:           fail,
		}
		if args := Checker(set, 10080, "image").Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--drain-grace=1m0s") {
			t.Errorf("failHealthChecks %q: arguments %v", fail, args)
		}
	}
}

// TestCheckerResources requests a little where the user says nothing, so that health checkers
// are not the first that a node under pressure takes away.
func TestCheckerResources(t *testing.T) {
	set := proxy()
	got := func() corev1.ResourceRequirements {
		return Checker(set, 10080, "image").Spec.Template.Spec.Containers[0].Resources
	}
	if r := got(); r.Requests.Cpu().String() != "10m" || r.Requests.Memory().String() != "32Mi" || len(r.Limits) != 0 {
		t.Errorf("by default %v", r)
	}
	for _, own := range []corev1.ResourceRequirements{
		{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0")}},
		{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}},
	} {
		set.Spec.HealthChecker.Resources = own
		if diff := cmp.Diff(own, got()); diff != "" {
			t.Error(diff)
		}
	}
}

// TestIngressPorts watches what pods of the host network declare, and nothing of
// pods that have sockets elsewhere.
func TestIngressPorts(t *testing.T) {
	set := proxy()
	set.Spec.Template.Spec.InitContainers = []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 9000, Protocol: corev1.ProtocolTCP}}}}
	set.Spec.Template.Spec.Containers = []corev1.Container{
		{Ports: []corev1.ContainerPort{{ContainerPort: 443}, {ContainerPort: 443, Protocol: corev1.ProtocolUDP}, {ContainerPort: 80}}},
		{Ports: []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}, {ContainerPort: 53, Protocol: corev1.ProtocolUDP}, {ContainerPort: 132, Protocol: corev1.ProtocolSCTP}}},
	}
	watched := func() string {
		for _, arg := range Checker(set, 10080, "image").Spec.Template.Spec.Containers[0].Args {
			if ports, ok := strings.CutPrefix(arg, "--ingress-ports="); ok {
				return ports
			}
		}
		return "none"
	}
	set.Spec.Template.Spec.HostNetwork = true
	if got, want := watched(), "80,443,9000"; got != want {
		t.Errorf("a host-network template: %s, want %s", got, want)
	}
	set.Spec.Template.Spec.HostNetwork = false
	if got := watched(); got != "none" {
		t.Errorf("a template with a network of its own: %s", got)
	}
	set.Spec.Template.Spec = corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{}}}
	if got := watched(); got != "none" {
		t.Errorf("a template without ports: %s", got)
	}
}

// TestRequestUnderAnotherKey: a request counts for the key that asked; what others ask for
// under another one that the strategy names by now is not this controller's.
func TestRequestUnderAnotherKey(t *testing.T) {
	set := proxy()
	set.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{
		MaxUnavailableNodes: new(intstr.FromInt32(1)), AnnotateNodeToDetach: &v1alpha1.AnnotateNodeToDetach{Key: "out"},
	}
	for name, c := range map[string]struct {
		record string
		held   bool
		want   bool
	}{
		"of this key":                 {`{"at":"2026-01-01T00:00:00Z","key":"out"}`, true, true},
		"of another key":              {`{"at":"2026-01-01T00:00:00Z","key":"detached"}`, true, false},
		"of a release without keys":   {`{"at":"2026-01-01T00:00:00Z"}`, true, true},
		"whose annotation is removed": {`{"at":"2026-01-01T00:00:00Z","key":"out"}`, false, false},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{v1alpha1.AnnotationDetachPrefix + string(set.UID): c.record}}}
		if c.held {
			node.Annotations["out"] = ""
		}
		got, err := ReaderOf(set).Node("n", node, nil, nil)
		if err != nil || !got.Detachment.Requested || got.Detachment.Held != c.want {
			t.Errorf("%s: %+v, %v", name, got.Detachment, err)
		}
	}
}
