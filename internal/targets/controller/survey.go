package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

const (
	// tagsAtOnce is how many groups' tags are read before those are known.
	tagsAtOnce = 20
	// tagsRest is how many times as long as reading all tags took nothing is read of them.
	tagsRest = 5
	// longestPause is between two requests of the background while the cloud says that it
	// is too much.
	longestPause = 30 * time.Second
)

// survey is what is known of an account beside inventories, and asked for in the background
// but for groups that somebody names: which there are is in the account's listing. It is
// guarded by the account's mu, and all of it may be lost.
type survey struct {
	// direct are groups that somebody named, by ID; naming are the names that are being asked for,
	// with the tags of what they name.
	direct map[string]direct
	naming []targets.GroupName
	named  asking
	// askedFor is when a name was asked for last, missing are those that named nothing then, by ID.
	askedFor map[targets.GroupName]time.Time
	missing  map[string]bool
	// owners are those of groups that were ever known, see targets.OwnerOf.
	owners map[string]bool

	// tags are by the ID of their group, unanswered are groups of which the last answer said
	// nothing: that is not that they have none.
	tags       map[string]map[string]string
	unanswered map[string]bool
	tagged     asking
	// tagsReadAt is when reading all tags ended last, and tagsTook how long it took; tagsMissing is
	// whether some are being read of which none are known.
	tagsReadAt  time.Time
	tagsTook    time.Duration
	tagsMissing bool

	sweeps      *targets.Sweeps
	lookFailure string
}

// direct is a group, and when it was asked for.
type direct struct {
	targets.Group
	at time.Time
}

// asking is what is asked for in a goroutine of its own.
type asking struct {
	underWay bool
	// ended is when the last time ended.
	ended   time.Time
	failure string
}

func newSurvey() survey {
	return survey{direct: map[string]direct{}, askedFor: map[targets.GroupName]time.Time{}, missing: map[string]bool{}, owners: map[string]bool{}, tags: map[string]map[string]string{}, unanswered: map[string]bool{}, sweeps: targets.NewSweeps()}
}

// due reports whether it is time to ask again.
func (a *asking) due(every time.Duration) bool {
	if a.failure != "" {
		every = failedAgain
	}
	return !a.underWay && time.Since(a.ended) >= every
}

// end notes how it ended.
func (a *asking) end(what string, err error) {
	a.underWay, a.ended, a.failure = false, time.Now(), ""
	if err != nil {
		a.failure = fmt.Sprintf("%s: %v", what, err)
	}
}

// renew asks for what an account is needed for where that is due.
func (a *account) renew(plan targets.AccountPlan, every time.Duration) {
	if a.refused != "" {
		return
	}
	a.readNamed(plan.Named, every)
	listed := every
	if plan.List {
		listed = min(every, listAgain)
	}
	a.groups.renew(a.running, listed)
	a.readTags(plan, every)
	groups, _, _ := a.groups.known()
	listedAt := a.groups.since()
	a.mu.Lock()
	defer a.mu.Unlock()
	// Those that are there are listed by now.
	maps.DeleteFunc(a.survey.direct, func(_ string, d direct) bool { return d.at.Before(listedAt) })
	a.survey.sweeps.Plan(plan.Sweep, a.survey.complete(groups, listedAt), time.Now())
	a.move()
}

// complete are the groups that were listed, with their tags, and those that were read since.
func (s *survey) complete(listed []targets.Group, listedAt time.Time) []targets.Group {
	out := slices.Clone(listed)
	for _, id := range slices.Sorted(maps.Keys(s.direct)) {
		if _, there := find(listed, id); !there && listedAt.Before(s.direct[id].at) {
			out = append(out, s.direct[id].Group)
		}
	}
	for i := range out {
		if tags, read := s.tags[out[i].ID]; read {
			out[i].Tags = tags
		}
	}
	return out
}

// find finds a group in a list in the order of their IDs.
func find(listed []targets.Group, id string) (g targets.Group, there bool) {
	at, there := slices.BinarySearchFunc(listed, id, func(g targets.Group, id string) int { return strings.Compare(g.ID, id) })
	if there {
		g = listed[at]
	}
	return g, there
}

// failure is why something could not be read last, empty where all could.
func (s *survey) failure() string { return cmp.Or(s.named.failure, s.tagged.failure) }

// listGroups lists which groups there are, in the order of their IDs.
func (a *account) listGroups(ctx context.Context) (groups []targets.Group, err error) {
	cloud, err := a.connected()
	if err != nil {
		return nil, err
	}
	err = a.quietly(ctx, func(ctx context.Context) error {
		groups, err = cloud.Groups(ctx)
		return err
	})
	slices.SortFunc(groups, func(a, b targets.Group) int { return strings.Compare(a.ID, b.ID) })
	a.mu.Lock()
	defer a.mu.Unlock()
	there := make(map[string]bool, len(groups))
	for _, g := range groups {
		there[g.ID] = true
		a.survey.owners[targets.OwnerOf(g.ID)] = true
	}
	if err == nil {
		maps.DeleteFunc(a.survey.tags, func(id string, _ map[string]string) bool { return !there[id] })
		maps.DeleteFunc(a.survey.unanswered, func(id string, _ bool) bool { return !there[id] })
	}
	return groups, err
}

// readNamed reads groups that somebody names, each as often as all are listed. They come
// before the background.
func (a *account) readNamed(names []targets.GroupName, every time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &a.survey
	maps.DeleteFunc(s.askedFor, func(n targets.GroupName, _ time.Time) bool { return !slices.Contains(names, n) })
	maps.DeleteFunc(s.missing, func(id string, _ bool) bool { return !slices.Contains(names, targets.GroupName{ID: id}) })
	var due []targets.GroupName
	for _, n := range names {
		if time.Since(s.askedFor[n]) >= every {
			due = append(due, n)
		}
	}
	if len(due) == 0 || !s.named.due(0) {
		return
	}
	s.named.underWay, s.naming = true, due
	go func() {
		asked := time.Now()
		cloud, err := a.connected()
		var found []targets.Group
		if err == nil {
			err = a.patiently(a.running, func(ctx context.Context) (err error) {
				found, err = cloud.Named(ctx, due)
				return err
			})
		}
		a.mu.Lock()
		if err == nil {
			for _, n := range due {
				s.askedFor[n] = asked
				if n.ID != "" {
					s.missing[n.ID] = !slices.ContainsFunc(found, n.Names)
				}
			}
		}
		for _, g := range found {
			s.direct[g.ID] = direct{g, asked}
			s.owners[targets.OwnerOf(g.ID)] = true
		}
		a.mu.Unlock()
		if len(found) > 0 {
			// What leaves them waits for no tags, without which nothing is registered.
			a.trigger()
		}
		untagged := a.readTagsOf(found, a.patiently)
		a.mu.Lock()
		s.naming = nil
		s.named.end("reading the target groups that are named", err)
		if len(found) > 0 && !s.tagged.underWay {
			s.tagged.end(readingTags, untagged)
			if untagged == nil && s.tagsReadAt.IsZero() {
				s.tagsReadAt = time.Now()
			}
		}
		a.mu.Unlock()
		a.trigger()
	}()
}

const readingTags = "reading the tags of target groups"

// readTags reads the tags of groups where somebody needs them: at once where they are not
// known, and all of them now and then, however often some are read at once.
func (a *account) readTags(plan targets.AccountPlan, every time.Duration) {
	if !plan.Tags && !plan.TagsOfInstances && len(plan.TagsOf) == 0 {
		return
	}
	groups, _, _ := a.groups.known()
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &a.survey
	needed := slices.DeleteFunc(s.complete(groups, a.groups.since()), func(g targets.Group) bool {
		beingRead := slices.ContainsFunc(s.naming, func(n targets.GroupName) bool { return n.Names(g) })
		return beingRead || !plan.Tags && !(plan.TagsOfInstances && g.Type == targets.Instance) && !plan.TagsOf[g.ID]
	})
	all := time.Since(s.tagsReadAt) >= max(every, tagsRest*s.tagsTook)
	if !all {
		needed = slices.DeleteFunc(needed, func(g targets.Group) bool { return g.Tags != nil || s.unanswered[g.ID] })
	}
	if len(needed) == 0 || !s.tagged.due(0) {
		return
	}
	s.tagged.underWay = true
	s.tagsMissing = slices.ContainsFunc(needed, func(g targets.Group) bool { return g.Tags == nil })
	go func() {
		begun := time.Now()
		err := a.readTagsOf(needed, a.quietly)
		a.mu.Lock()
		s.tagged.end(readingTags, err)
		s.tagsMissing = false
		if took := time.Since(begun); all || took > s.tagsTook {
			s.tagsTook = took
		}
		if all && err == nil {
			s.tagsReadAt = time.Now()
		}
		a.move()
		a.mu.Unlock()
		a.trigger()
	}()
}

// readTagsOf reads the tags of some groups, as quietly or patiently ask.
func (a *account) readTagsOf(groups []targets.Group, ask func(context.Context, func(context.Context) error) error) error {
	if len(groups) == 0 {
		return nil
	}
	cloud, err := a.connected()
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(groups, tagsAtOnce) {
		var tags map[string]map[string]string
		err := ask(a.running, func(ctx context.Context) (err error) {
			tags, err = cloud.Tags(ctx, chunk)
			return err
		})
		if err != nil {
			return err
		}
		a.mu.Lock()
		for _, g := range chunk {
			found, answered := tags[g.ID]
			if !answered {
				// Where it is gone the next list says so. Without its tags nobody would mean it, and
				// anybody's targets could come into it.
				a.survey.unanswered[g.ID] = true
				continue
			}
			delete(a.survey.unanswered, g.ID)
			a.survey.tags[g.ID] = map[string]string{}
			maps.Copy(a.survey.tags[g.ID], found)
		}
		a.mu.Unlock()
	}
	return nil
}

// sweep looks through groups for nodes until ctx is done, one after the other, once tags that
// somebody needs were read: those are fewer requests.
func (a *account) sweep(ctx context.Context) {
	found := false
	for ctx.Err() == nil {
		a.mu.Lock()
		g, ready, at := a.survey.sweeps.Next(time.Now())
		if a.survey.tagsMissing {
			ready, at = false, time.Time{}
		}
		moved := a.moved
		a.mu.Unlock()
		if ready {
			found = true
			a.look(ctx, g)
			continue
		}
		if found {
			// Somebody may wait for the last of them.
			a.trigger()
			found = false
		}
		wait(ctx, moved, at)
	}
}

// look looks through a group for nodes. One that was deleted meanwhile holds none.
func (a *account) look(ctx context.Context, g targets.Group) {
	var sent time.Time
	var found map[targets.Target]targets.Health
	err := a.quietly(ctx, func(ctx context.Context) (err error) {
		sent = time.Now()
		found, err = a.cloud.List(ctx, g, nil)
		return err
	})
	a.mu.Lock()
	before := a.survey.sweeps.Seen(g.ID).Instances
	switch {
	case err == nil || a.outcome(err) == targets.Gone:
		a.survey.lookFailure = ""
		a.survey.sweeps.Done(g.ID, sent, found)
	default:
		a.survey.lookFailure = fmt.Sprintf("looking for nodes in target group %s: %v", g.Name, err)
		a.survey.sweeps.Failed(g.ID, time.Now())
	}
	news := !maps.Equal(before, a.survey.sweeps.Seen(g.ID).Instances)
	a.mu.Unlock()
	if news {
		a.trigger()
	}
}

// backgroundKey marks a context whose requests nobody waits for.
type backgroundKey struct{}

// quietly asks in the background, within its own limit.
func (a *account) quietly(ctx context.Context, ask func(context.Context) error) error {
	return a.patiently(context.WithValue(ctx, backgroundKey{}, true), ask)
}

// patiently asks again, with longer and longer pauses, while the cloud says that it is too
// much.
func (a *account) patiently(ctx context.Context, ask func(context.Context) error) error {
	for pause := time.Second; ; pause = min(2*pause, longestPause) {
		err := ask(ctx)
		if err == nil || a.outcome(err) != targets.Throttled {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
