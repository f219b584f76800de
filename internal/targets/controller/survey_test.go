package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	errGone      = errors.New("there is no such group")
	errThrottled = errors.New("that was too much")
)

// manyGroups is an account of groups of instances, every third of addresses. Each request
// takes 10 ms. Node node-a's instance is in group 6.
type manyGroups struct {
	before func(context.Context) error
	n      int
	// broken is what a request fails with, by its name and a group.
	broken func(what, group string) error

	mu       sync.Mutex
	requests []sent
	out      bool
}

// sent is a request.
type sent struct {
	what, group string
	at          time.Time
	background  bool
}

func (m *manyGroups) request(ctx context.Context, what, group string) error {
	if err := m.before(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	_, background := ctx.Value(backgroundKey{}).(bool)
	m.requests = append(m.requests, sent{what, group, time.Now(), background})
	m.mu.Unlock()
	time.Sleep(10 * time.Millisecond)
	if m.broken != nil {
		return m.broken(what, group)
	}
	return nil
}

// sent are the requests of a name, all for none.
func (m *manyGroups) sent(what string) []sent {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.requests), func(s sent) bool { return what != "" && s.what != what })
}

func (m *manyGroups) group(i int) targets.Group {
	g := targets.Group{ID: fmt.Sprintf("arn:%04d", i), Name: fmt.Sprintf("g%04d", i), Balancer: targets.Network, Type: targets.Instance, Port: 80, InUse: true}
	if i%3 == 1 {
		g.Type = targets.IP
	}
	return g
}

func (m *manyGroups) Region() string { return "eu-west-1" }

func (m *manyGroups) Groups(ctx context.Context) (all []targets.Group, err error) {
	for page := 0; page < m.n; page += 400 {
		if err := m.request(ctx, "Groups", ""); err != nil {
			return nil, err
		}
	}
	for i := range m.n {
		all = append(all, m.group(i))
	}
	return all, nil
}

func (m *manyGroups) Named(ctx context.Context, names []targets.GroupName) (found []targets.Group, err error) {
	if err := m.request(ctx, "Named", ""); err != nil {
		return nil, err
	}
	for i := range m.n {
		if g := m.group(i); slices.ContainsFunc(names, func(n targets.GroupName) bool { return n.Names(g) }) {
			found = append(found, g)
		}
	}
	return found, nil
}

func (m *manyGroups) Tags(ctx context.Context, groups []targets.Group) (map[string]map[string]string, error) {
	tags := map[string]map[string]string{}
	for _, g := range groups {
		tags[g.ID] = map[string]string{"id": g.ID, "kind": string(g.Type)}
	}
	return tags, m.request(ctx, "Tags", groups[0].ID)
}

func (m *manyGroups) Describe(ctx context.Context, g targets.Group) (targets.Group, error) {
	g.CrossZone, g.MinHealthy, g.Delay = true, 1, time.Minute
	return g, m.request(ctx, "Describe", g.ID)
}

func (m *manyGroups) List(ctx context.Context, g targets.Group, _ []targets.Target) (map[targets.Target]targets.Health, error) {
	if err := m.request(ctx, "List", g.ID); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found := healthy("i-x", "i-y")
	if g.ID == "arn:0006" && !m.out {
		found[targets.Target{ID: "i-a", Port: 80}] = targets.Health{Condition: targets.Healthy}
	}
	return found, nil
}

func (m *manyGroups) Register(ctx context.Context, g targets.Group, _ []targets.Registration) error {
	return m.request(ctx, "Register", g.ID)
}

func (m *manyGroups) Deregister(ctx context.Context, g targets.Group, _ []targets.Target) error {
	m.mu.Lock()
	m.out = true
	m.mu.Unlock()
	return m.request(ctx, "Deregister", g.ID)
}

// play reconciles objects against an account until something is so, within a time.
type play struct {
	*testing.T
	*Reconciler
	cloud    *manyGroups
	api      client.Client
	triggers chan struct{}
	begun    time.Time
}

func playOf(t *testing.T, ctx context.Context, cloud *manyGroups, change func(*Options), objects ...client.Object) *play {
	p := &play{T: t, cloud: cloud, triggers: make(chan struct{}, 1), begun: time.Now(), api: fakeapi.New(t, objects...)}
	trigger := func() {
		select {
		case p.triggers <- struct{}{}:
		default:
		}
	}
	o := Options{
		SettleTime: targets.DefaultSettleTime, GroupsEvery: time.Minute, Rate: targets.DefaultRate, Burst: targets.DefaultBurst,
		Outcome: func(err error) targets.Outcome {
			switch {
			case errors.Is(err, errGone):
				return targets.Gone
			case errors.Is(err, errThrottled):
				return targets.Throttled
			}
			return targets.Failed
		},
		Connect: func(_ *v1alpha1.AssumeRole, before func(context.Context) error) (Cloud, error) {
			cloud.before = before
			return cloud, nil
		},
	}
	if change != nil {
		change(&o)
	}
	p.Reconciler = New(ctx, o, p.api, p.api, events.NewFakeRecorder(1000), trigger)
	p.Reconciler.bindings = &listing[targets.Binding]{trigger: trigger, list: func(context.Context) ([]targets.Binding, error) { return nil, nil }}
	return p
}

// until reconciles until something is so, and says how long that took.
func (p *play) until(what string, within time.Duration, is func() bool) time.Duration {
	p.Helper()
	begun := time.Now()
	for time.Since(begun) < within {
		result, err := p.Reconcile(p.Context(), onepass.Everything)
		if err != nil {
			p.Fatal(err)
		}
		synctest.Wait()
		if is() {
			return time.Since(begun)
		}
		select {
		case <-p.triggers:
			time.Sleep(gatherFor)
		case <-time.After(min(result.RequeueAfter, time.Second)):
		}
	}
	p.Fatalf("not within %s: %s", within, what)
	return 0
}

// mostInBackground holds that the background kept its limit at any time.
func (p *play) mostInBackground() {
	p.Helper()
	var at []time.Time
	for _, s := range p.cloud.sent("") {
		if s.background {
			at = append(at, s.at)
		}
	}
	for i := range at {
		for j := i; j < len(at); j += 50 {
			if most := 21 + targets.BackgroundRate*at[j].Sub(at[i]).Seconds(); float64(j-i+1) > most {
				p.Fatalf("%d requests within %s", j-i+1, at[j].Sub(at[i]))
			}
		}
	}
}

func onGroup(name string, selector v1alpha1.TargetGroupSelector) *v1alpha1.TargetGroupAttachment {
	a := named(name)
	a.Spec = v1alpha1.TargetGroupAttachmentSpec{TargetGroup: selector, TargetType: "instance", Port: intstr.FromInt32(80), NodeSelector: &metav1.LabelSelector{}}
	return a
}

func nodeA() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}, Spec: corev1.NodeSpec{ProviderID: "aws:///z/i-a"}}
}

// TestNamedGroupsWaitForNoList registers with a group that is named while all are listed, and
// where they cannot be.
func TestNamedGroupsWaitForNoList(t *testing.T) {
	for name, fails := range map[string]bool{"an account of 3,000 groups": false, "one that cannot be listed": true} {
		synctest.Test(t, func(t *testing.T) {
			cloud := &manyGroups{n: 3000, broken: func(what, _ string) error {
				if fails && what == "Groups" {
					return errors.New("denied")
				}
				return nil
			}}
			ctx, stop := context.WithCancel(t.Context())
			p := playOf(t, ctx, cloud, nil, nodeA(), onGroup("web", v1alpha1.TargetGroupSelector{Name: "g2997"}))
			took := p.until("a call", 10*time.Second, func() bool { return len(cloud.sent("Register")) > 0 })
			if took > 2*time.Second {
				t.Errorf("%s: the first call after %s", name, took)
			}
			for _, s := range cloud.sent("") {
				if s.group != "" && s.group != "arn:2997" {
					t.Errorf("%s: %s of %s", name, s.what, s.group)
				}
			}
			if n := len(cloud.sent("Tags")); n != 1 {
				t.Errorf("%s: tags were read %d times, those of the group once", name, n)
			}
			stop()
			time.Sleep(time.Second)
		})
	}
}

// TestGroupsByTagInALargeAccount are known after half a minute, before groups are looked
// through for nodes; their tags are read again after a rest, and the background keeps to half
// of what AWS grants.
func TestGroupsByTagInALargeAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &manyGroups{n: 3000}
		ctx, stop := context.WithCancel(t.Context())
		p := playOf(t, ctx, cloud, func(o *Options) { o.Detaching = true }, nodeA(),
			onGroup("web", v1alpha1.TargetGroupSelector{Tags: map[string]string{"id": "arn:2997"}}), onGroup("named", v1alpha1.TargetGroupSelector{Name: "g0003"}))
		if took := p.until("a call in each", 2*time.Minute, func() bool { return len(cloud.sent("Register")) > 1 }); took > 35*time.Second {
			t.Errorf("the first call after %s", took)
		}
		p.until("they are read again", 20*time.Minute, func() bool { return len(cloud.sent("Tags")) > 300 })
		if rested := cloud.sent("Tags")[151].at.Sub(p.begun); rested < 2*time.Minute {
			t.Errorf("they are read again after %s", rested)
		}
		p.mostInBackground()
		stop()
		time.Sleep(time.Second)
	})
}

// TestANodeInALargeAccount is taken out at once where the last look found it, while all
// groups that may hold it are looked through; then it is done. Nothing is asked of groups of
// addresses.
func TestANodeInALargeAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &manyGroups{n: 900, broken: func(what, group string) error {
			if what == "List" && group == "arn:0300" {
				return errGone
			}
			return nil
		}}
		ctx, stop := context.WithCancel(t.Context())
		p := playOf(t, ctx, cloud, func(o *Options) { o.Detaching = true }, nodeA())
		p.until("all were looked through", 5*time.Minute, func() bool { return len(cloud.sent("List")) >= 600 })
		out := &v1alpha1.Attachment{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "1", Generation: 1}, Spec: v1alpha1.AttachmentSpec{Instance: "i-a", Wanted: v1alpha1.WantDetached}}
		if err := p.api.Create(t.Context(), out); err != nil {
			t.Fatal(err)
		}
		looks, asked := len(cloud.sent("List")), time.Now()
		took := p.until("it is deregistered", time.Minute, func() bool { return len(cloud.sent("Deregister")) > 0 })
		if took > 15*time.Second {
			t.Errorf("deregistered after %s", took)
		}
		node := &v1alpha1.Attachment{}
		read := func() v1alpha1.AttachmentStatus {
			if err := p.api.Get(t.Context(), client.ObjectKeyFromObject(out), node); err != nil {
				t.Fatal(err)
			}
			return node.Status
		}
		if s := read(); s.Done || len(s.Groups) != 1 {
			t.Errorf("%+v", s)
		}
		took += p.until("it is done", 20*time.Minute, func() bool { return read().Done })
		if n := len(cloud.sent("List")) - looks; n < 600 || took > 8*time.Minute {
			t.Errorf("done after %s and %d looks", took, n)
		}
		lists := slices.DeleteFunc(cloud.sent("Groups"), func(s sent) bool { return s.at.Before(asked) })
		if after := lists[0].at.Sub(asked); after > 5*time.Second {
			t.Errorf("groups are listed anew after %s", after)
		}
		for _, s := range cloud.sent("") {
			if i := 0; s.group != "" {
				fmt.Sscanf(strings.TrimPrefix(s.group, "arn:"), "%d", &i)
				if i%3 == 1 {
					t.Fatalf("%s of a group of addresses", s.what)
				}
			}
		}
		p.mostInBackground()
		stop()
		time.Sleep(time.Second)
	})
}

// TestTheBackgroundGivesWay while the cloud says that it is too much.
func TestTheBackgroundGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(time.Minute)
		cloud := &manyGroups{n: 300, broken: func(what, _ string) error {
			if what == "Groups" && time.Now().Before(until) {
				return errThrottled
			}
			return nil
		}}
		ctx, stop := context.WithCancel(t.Context())
		p := playOf(t, ctx, cloud, func(o *Options) { o.Detaching = true }, nodeA())
		p.until("all are listed", 2*time.Minute, func() bool {
			return p.accounts[v1alpha1.AssumeRole{}] != nil && len(p.accounts[v1alpha1.AssumeRole{}].observe(v1alpha1.AssumeRole{}).Groups) == 300
		})
		if n := len(cloud.sent("Groups")); n > 8 {
			t.Errorf("asked %d times in a minute in which it was too much", n)
		}
		stop()
		time.Sleep(time.Second)
	})
}

// TestTagsAreReadWhereTheyAreNeeded only of groups of instances, for nodes; and what is gone
// meanwhile has none.
func TestTagsAreReadWhereTheyAreNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &manyGroups{n: 90}
		ctx, stop := context.WithCancel(t.Context())
		p := playOf(t, ctx, cloud, func(o *Options) { o.Detaching, o.DetachTagged = true, map[string]string{"id": "arn:0006"} }, nodeA())
		p.until("the one group is looked through", time.Minute, func() bool { return len(cloud.sent("List")) > 0 })
		p.until("nothing else is", 5*time.Minute, func() bool { return time.Since(p.begun) > 4*time.Minute })
		if looks := cloud.sent("List"); len(looks) != 1 || looks[0].group != "arn:0006" {
			t.Errorf("%+v", looks)
		}
		for _, g := range p.accounts[v1alpha1.AssumeRole{}].observe(v1alpha1.AssumeRole{}).Groups {
			if (g.Tags == nil) != (g.Type == targets.IP) {
				t.Errorf("%s has the tags %v", g.ID, g.Tags)
			}
		}
		stop()
		time.Sleep(time.Second)
	})
}

// TestTagsAreReadAgainHoweverManyTurnUp: a group that is named anew has its tags read at once, and
// puts off nothing: by those of all others it is known which take new targets no more.
func TestTagsAreReadAgainHoweverManyTurnUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &manyGroups{n: 90}
		ctx, stop := context.WithCancel(t.Context())
		p := playOf(t, ctx, cloud, nil, nodeA(), onGroup("web", v1alpha1.TargetGroupSelector{Name: "g0000"}))
		for i := range 10 {
			other := onGroup(fmt.Sprintf("web-%d", i), v1alpha1.TargetGroupSelector{Name: fmt.Sprintf("g%04d", 3*i+3)})
			if err := p.api.Create(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			p.until("half a minute has passed", time.Minute, func() bool { return time.Since(begun) > 30*time.Second })
		}
		of := slices.DeleteFunc(cloud.sent("Tags"), func(s sent) bool { return s.group != "arn:0000" })
		if len(of) < 4 || len(of) > 6 {
			t.Errorf("the tags of the first group were read %d times in 5 minutes, once a minute is asked for", len(of))
		}
		stop()
		time.Sleep(time.Second)
	})
}

// TestTagsOfWhatWasNamedOnce: while groups are read that are named, others are not passed by that
// only were so.
func TestTagsOfWhatWasNamedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &manyGroups{n: 3, before: func(context.Context) error { return nil }}
		a := accountOf(&fakeCloud{}, func() {})
		a.cloud, a.running, a.groups.all, a.groups.asked = cloud, t.Context(), nil, time.Time{}
		for _, name := range []string{"g0000", "g0001"} {
			a.readNamed([]targets.GroupName{{Name: name}}, time.Minute)
			time.Sleep(time.Second)
		}
		begun := len(cloud.sent("Tags"))
		time.Sleep(time.Minute)
		a.readNamed([]targets.GroupName{{Name: "g0001"}}, time.Minute)
		a.readTags(targets.AccountPlan{Tags: true}, time.Minute)
		time.Sleep(time.Minute)
		of := map[string]int{}
		for _, s := range cloud.sent("Tags")[begun:] {
			of[s.group]++
		}
		if of["arn:0000"] != 1 || of["arn:0001"] != 1 {
			t.Errorf("read %v, each is to be read once", of)
		}
	})
}

// TestWhatIsSurveyedIsDatedByItsQuestion: a look into a group says nothing of a node that was
// registered while it was under way, and a group that was asked for by its name is gone where a
// list that was asked for later is without it.
func TestWhatIsSurveyedIsDatedByItsQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &fakeCloud{calls: make(chan string, 1), answers: make(chan struct{})}
		a := accountOf(cloud, func() {})
		asked := time.Now()
		a.survey.sweeps.Plan(&targets.Sweep{Instances: map[string]bool{"i-a": true}}, []targets.Group{group(targets.Instance)}, asked)
		go a.look(t.Context(), group(targets.Instance))
		<-cloud.calls
		time.Sleep(time.Minute)
		cloud.answers <- struct{}{}
		synctest.Wait()
		if at := a.survey.sweeps.Seen("arn:web").At; !at.Equal(asked) {
			t.Errorf("a look that was asked for at %s is dated %s", asked, at)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		a := accountOf(&fakeCloud{}, func() {})
		a.cloud, a.running = &slowNames{}, t.Context()
		asked := time.Now()
		a.readNamed([]targets.GroupName{{Name: "web"}}, time.Minute)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if at := a.survey.direct["arn:web"].at; !at.Equal(asked) {
			t.Errorf("a group that was asked for at %s is dated %s", asked, at)
		}
	})
}

// TestWhatIsMissingIsKnown by who asked for it by itself, until it is there, or nobody asks.
func TestWhatIsMissingIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := accountOf(&fakeCloud{}, func() {})
		a.cloud, a.running = &slowNames{}, t.Context()
		for _, step := range []struct {
			names []targets.GroupName
			want  bool
		}{{[]targets.GroupName{{ID: "arn:web"}, {ID: "arn:old"}, {Name: "old"}}, true}, {[]targets.GroupName{{ID: "arn:web"}}, false}} {
			a.readNamed(step.names, time.Minute)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if got := a.observe(v1alpha1.AssumeRole{}).Missing; got["arn:old"] != step.want || got["arn:web"] || got[""] {
				t.Errorf("asked for %v: %v", step.names, got)
			}
		}
	})
}

// slowNames takes a minute to find groups by their names.
type slowNames struct{ fakeCloud }

func (*slowNames) Named(context.Context, []targets.GroupName) ([]targets.Group, error) {
	time.Sleep(time.Minute)
	return []targets.Group{group(targets.Instance)}, nil
}
