package targets

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// manyOut is a State of many nodes in several groups, some of which are out.
func manyOut(nodes, groups, out int) State {
	s := fleetOf(webGroup(Instance), nil)
	s.Accounts[0].Groups, s.Nodes = nil, nil
	registered, names, sightings := map[Target]Health{}, []string{}, map[Target]Sighting{}
	left := noon.Add(-time.Hour)
	record := v1alpha1.AttachedGroup{Balancer: "network"}
	for i := range nodes {
		id := fmt.Sprintf("i-%04d", i)
		s.Nodes = append(s.Nodes, nodeOf(fmt.Sprintf("ip-10-0-%03d-%03d.eu-west-1.compute.internal", i/250, i%250), id, "z1"))
		if i >= out {
			registered[Target{id, 80}] = Health{Condition: Healthy}
			names = append(names, id+":80")
			continue
		}
		record.Leaving = append(record.Leaving, v1alpha1.LeavingTarget{Target: id + ":80", LeftAt: &metav1.Time{Time: left}})
		sightings[Target{id, 80}] = Sighting{LeftAt: left, Left: left}
		a := s.detachment(s.Nodes[i].Name, id, v1alpha1.WantDetached)
		a.Status.Done, a.Status.ObservedGeneration = true, 3
	}
	spec := onNodes()
	spec.TargetGroup.Tags = map[string]string{"a": "b"}
	record.Targets = names
	var all []v1alpha1.AttachedGroup
	for i := range groups {
		g, r := webGroup(Instance), record
		g.ID, g.Name = fmt.Sprintf("arn:%02d", i), fmt.Sprintf("web-%02d", i)
		r.ID = g.ID
		all = append(all, r)
		s.Accounts[0].Groups = append(s.Accounts[0].Groups, KnownGroup{Group: g, ReadAt: asOf, Live: true, Registered: registered})
		s.Memory.Groups[GroupKey{ID: g.ID}] = GroupMemory{Sightings: sightings}
	}
	s.attachment("web", spec, all...)
	return s
}

// TestManyNodesAreOut takes no more than a few times as long where a third of the nodes is out, as when a
// zone is cordoned, as where none is: a decision that comes too late is not carried out.
func TestManyNodesAreOut(t *testing.T) {
	took := func(out int) time.Duration {
		s := manyOut(600, 3, out)
		before := usedCPU(t)
		d := Plan(s)
		used := usedCPU(t) - before
		for _, n := range d.NodeAttachments {
			if !n.Status.Done {
				t.Fatalf("%s is not out: %+v", n.Object.Name, n.Status)
			}
		}
		return used
	}
	took(0)
	none, third := took(0), took(200)
	if most := 20*none + 200*time.Millisecond; third > most {
		t.Errorf("with a third of the nodes out it takes %s, with none %s", third, none)
	}
}

// usedCPU is what this process used: the time that passes is others' as well.
func usedCPU(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// TestADecisionsAge counts from when it was made, as long as the process was not frozen meanwhile; and
// users are told where decisions come too late.
func TestADecisionsAge(t *testing.T) {
	for name, c := range map[string]struct {
		took time.Duration
		made bool
	}{
		"at once":                {0, true},
		"after seconds":          {20 * time.Second, true},
		"after a freeze":         {10 * time.Minute, false},
		"the clock is set ahead": {-10 * time.Minute, false},
	} {
		s := fleetOf(webGroup(IP), at80())
		s.attachment("web", onPods(IP), in80("10.0.0.1:80")).Pods = []*corev1.Pod{podOf("a", "10.0.0.1")}
		d, made := plan(t, s), noon.Add(c.took)
		err := d.Date(noon, made)
		calls := NewCalls(1, 1)
		calls.Plan("arn:web", d.Groups[0].GroupDecision)
		stale := calls.Stale(made)
		call, ready, _ := calls.Next(made)
		if (ready && call.Kind == Register) != c.made || (err == nil) != c.made || len(stale) == 0 != c.made {
			t.Errorf("%s: made %t, %v, stale %v", name, ready && call.Kind == Register, err, stale)
		}
	}
	s := fleetOf(webGroup(IP), at80())
	s.attachment("web", onPods(IP))
	s.Slow = "it took long to decide"
	if got := plan(t, s).blocked("web"); !strings.Contains(got, s.Slow) {
		t.Error(got)
	}
}
