package cloud

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func crossZone(s *Spec) {
	s.LoadBalancers[0].Attributes = map[string]string{attributeCrossZone: "true"}
}

// ends are the draws of one kind by node, in seconds of AWS's time.
func ends(c *Cloud, what string) map[string]float64 {
	found := map[string]float64{}
	for _, d := range c.Draws(0) {
		if d.What == what {
			found[d.Node] = d.At.Sub(d.From).Seconds() * c.scale
		}
	}
	return found
}

// The end of a drain is drawn for each node of a load balancer, and what was drawn can be
// read.
func TestEachNodeStopsByItself(t *testing.T) {
	apart := 0
	for seed := range uint64(20) {
		c := account(t, func(s *Spec) { crossZone(s); s.Seed = seed })
		must(t, c.Register(c.arn("pods"), []Target{{ID: pod}}, start))
		run(c, 0, 340, well)
		must(t, c.Deregister(c.arn("pods"), []Target{{ID: pod}}, c.after(340)))
		drawn := ends(c, "ends")
		expect(t, "nodes", len(drawn), 2)
		for _, zone := range []string{zoneA, zoneB} {
			end := drawn["front/"+zone]
			within(t, "the last new flow", end, 120, 300)
			expect(t, "flows just before", len(reached(c, zone, 340+end-1)), 1)
			expect(t, "flows just after", len(reached(c, zone, 340+end+1)), 0)
		}
		if a, b := drawn["front/"+zoneA], drawn["front/"+zoneB]; a-b > 10 || b-a > 10 {
			apart++
		}
	}
	if apart < 10 {
		t.Errorf("of 20 seeds only %d have both nodes stop more than 10 s apart", apart)
	}
}

func TestDrawsDependOnTheSeed(t *testing.T) {
	lines := func(seed uint64) (all []string) {
		c := account(t, func(s *Spec) { crossZone(s); s.Seed = seed })
		must(t, c.Register(c.arn("pods"), []Target{{ID: pod}}, start))
		must(t, c.Deregister(c.arn("pods"), []Target{{ID: pod}}, c.after(340)))
		for _, d := range c.Draws(0) {
			all = append(all, d.String())
		}
		return all
	}
	one := lines(1)
	if !slices.Equal(one, lines(1)) || slices.Equal(one, lines(2)) {
		t.Errorf("seed 1 draws %v and then %v, seed 2 %v", one, lines(1), lines(2))
	}
	expect(t, "lines", len(one), 4)
	if !strings.HasPrefix(one[0], "front/"+zoneA+" may send new connections to 10.0.1.1 port 80 of pods from ") ||
		!strings.HasPrefix(one[2], "front/"+zoneA+" sends new connections to 10.0.1.1 port 80 of pods until ") {
		t.Errorf("told as %v", one)
	}
}

// Some nodes send to a new target when the API says healthy, others later.
func TestANodeLearnsLate(t *testing.T) {
	late, apart := 0, 0
	for seed := range uint64(20) {
		c := account(t, func(s *Spec) { crossZone(s); s.Seed = seed })
		must(t, c.Register(c.arn("pods"), []Target{{ID: pod}}, start))
		run(c, 0, 340, well)
		healthy := moment(t, 90, 320, func(s float64) bool { return state(t, c, "pods", pod, s) == "healthy" })
		firsts := map[float64]bool{}
		for _, zone := range []string{zoneA, zoneB} {
			first := moment(t, 90, 340, func(s float64) bool { return len(reached(c, zone, s)) == 1 })
			within(t, "the first new flow", first, healthy, healthy+30)
			firsts[first] = true
			if first > healthy+5 {
				late++
			}
		}
		if len(firsts) == 2 {
			apart++
		}
	}
	if apart < 10 {
		t.Errorf("of 20 seeds only %d have both nodes learn of it at different moments", apart)
	}
	if late < 20 {
		t.Errorf("of 40 nodes only %d learn of the target more than 5 s after it is healthy", late)
	}
}

// A node that was made when a target had left does not send to it.
func TestANewNodeDoesNotKnowWhatLeft(t *testing.T) {
	c := account(t, crossZone)
	must(t, c.Register(c.arn("pods"), []Target{{ID: pod}}, start))
	run(c, 0, 340, well)
	must(t, c.Deregister(c.arn("pods"), []Target{{ID: pod}}, c.after(340)))
	must(t, c.PutLoadBalancer(LoadBalancer{
		Name: "other", Type: "network", Zones: []Zone{{zoneA, "10.0.1.7"}}, Listeners: []Listener{{"TCP", 90, "pods"}},
	}, c.after(341)))
	expect(t, "flows through the new one", len(c.Eligible(socket(c, 90, zoneA), "", c.after(342))), 0)
	expect(t, "flows through the old one", len(reached(c, zoneA, 342)), 1)
}

func TestLagsBeyondTheSettleTimes(t *testing.T) {
	for kind, test := range map[string]struct {
		lags map[Kind]Lags
		last float64
	}{
		"as reported":             {nil, 0},
		"beyond the settle times": {BeyondSettleTimes, 399},
	} {
		c := account(t, func(s *Spec) { crossZone(s); s.Lags = test.lags })
		must(t, c.Register(c.arn("pods"), []Target{{ID: pod}}, start))
		run(c, 0, 340, well) // as late as ever
		must(t, c.Deregister(c.arn("pods"), []Target{{ID: pod}}, c.after(340)))
		for _, zone := range []string{zoneA, zoneB} {
			expect(t, kind+": flows after the settle time", len(reached(c, zone, 340+300)) == 1, test.last > 300)
			if test.last > 300 {
				expect(t, kind+": flows", len(reached(c, zone, 340+test.last)), 1)
				expect(t, kind+": flows after all", len(reached(c, zone, 340+601)), 0)
			}
		}
	}
}

func TestLagsAreChangedForWhatComes(t *testing.T) {
	c := account(t, crossZone)
	must(t, c.Register(c.arn("pods"), []Target{{ID: pod}, {ID: "10.0.2.1"}}, start))
	run(c, 0, 340, well)
	must(t, c.Deregister(c.arn("pods"), []Target{{ID: pod}}, c.after(340)))
	must(t, c.SetLags(BeyondSettleTimes))
	must(t, c.Deregister(c.arn("pods"), []Target{{ID: "10.0.2.1"}}, c.after(340)))
	if got := reached(c, zoneA, 340+350); !slices.Equal(got, []string{"10.0.2.1"}) {
		t.Errorf("350 s after both left it reaches %v", got)
	}
	must(t, c.SetLags(nil))
	expect(t, "lags", c.lags[Network], RealLags[Network])
	for wanted, lags := range map[string]map[Kind]Lags{
		`no kind "gateway"`:     {"gateway": {}},
		"linger from 2 to 1":    {Network: {Linger: Range{2, 1}}},
		"fade from -1 to 1":     {Network: {Fade: Range{-1, 1}}},
		"lags of classic: chec": {Classic: {Check: Range{-1, 1}}},
	} {
		if err := c.SetLags(lags); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("expected an error with %q, got %v", wanted, err)
		}
	}
}

// emptied plays what a rollout does with two of four nodes at a time: two come back, and the
// other two leave when these are healthy, or, without waiting, 20 s after these came back. It
// reports whether some node of the balancer had no target at a moment.
func emptied(t *testing.T, seed uint64, lags map[Kind]Lags, wait bool) bool {
	t.Helper()
	c := account(t, func(s *Spec) { crossZone(s); s.Seed, s.Lags = seed, lags })
	first, second := []Target{{ID: "10.0.1.1"}, {ID: "10.0.2.1"}}, []Target{{ID: "10.0.1.2"}, {ID: "10.0.2.2"}}
	must(t, c.Register(c.arn("pods"), second, start))
	run(c, 0, 400, well)
	must(t, c.Register(c.arn("pods"), first, c.after(400)))
	healthy := func(s float64) bool {
		return state(t, c, "pods", "10.0.1.1", s) == "healthy" && state(t, c, "pods", "10.0.2.1", s) == "healthy"
	}
	left := false
	for s := 400.0; s < 1200; s++ {
		run(c, s, s+1, well)
		if !left && s >= 420 && (!wait || healthy(s)) {
			left = true
			must(t, c.Deregister(c.arn("pods"), second, c.after(s)))
		}
		if len(reached(c, zoneA, s)) == 0 || len(reached(c, zoneB, s)) == 0 {
			return true
		}
	}
	expect(t, "they left", left, true)
	return false
}

// Who does not wait until what came back is healthy loses nothing by most draws of what was
// reported, since a load balancer goes on sending to what left for about as long as it takes
// to send to what is new. With LateAndEarly it always has no target for a time, and who waits
// never does.
func TestNotWaitingForHealthy(t *testing.T) {
	const seeds = 40
	counts := map[string]int{}
	for seed := range uint64(seeds) {
		for name, lags := range map[string]map[Kind]Lags{"as reported": nil, "late and early": LateAndEarly} {
			for _, wait := range []bool{false, true} {
				if emptied(t, seed, lags, wait) {
					counts[fmt.Sprintf("%s, waiting %v", name, wait)]++
				}
			}
		}
	}
	t.Log(counts)
	expect(t, "without targets as reported, though it waits", counts["as reported, waiting true"], 0)
	expect(t, "without targets late and early, though it waits", counts["late and early, waiting true"], 0)
	expect(t, "without targets late and early", counts["late and early, waiting false"], seeds)
	if n := counts["as reported, waiting false"]; n == 0 || n > seeds/2 {
		t.Errorf("as reported, %d of %d are without targets", n, seeds)
	}
}
