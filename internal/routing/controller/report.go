package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// report makes an event of each warning, once for as long as it lasts. Who begins to lead makes them of all. It gives
// when there is one to be made of what was said too often, zero for never.
func (r *Reconciler) report() (again time.Time) {
	last := map[routing.Event]bool{}
	if r.leads() && (r.complete || r.partly) {
		for _, w := range slices.Concat(r.compiler.Warnings(), r.unread(), r.unsaid(), r.untold()) {
			last[w] = true
		}
		for _, one := range r.Acknowledgements.refused() {
			w := r.refused(one)
			at := time.Time{}
			if !r.told[w] {
				at = r.said.from(one, time.Now())
			}
			if !at.IsZero() {
				again = onepass.Earliest(again, at)
				continue
			}
			last[w] = true
		}
		r.say(last)
	}
	r.told = last
	return again
}

// say makes an event of what an object is warned of for one reason, and was not before.
func (r *Reconciler) say(last map[routing.Event]bool) {
	messages := map[routing.Event][]string{}
	for w := range last {
		if !r.told[w] {
			about := routing.Event{Object: w.Object, Reason: w.Reason}
			messages[about] = append(messages[about], w.Message)
		}
	}
	for about, all := range messages {
		slices.Sort(all)
		n := routing.Note(strings.Join(all, "; "))
		r.recorder.Eventf(r.regarding(about.Object), nil, corev1.EventTypeWarning, about.Reason, "Compile", "%s", n)
	}
}

const (
	// refusedEvery is in how long a time a resource makes no more events than refusedOfOne, and all of an
	// IngressDaemonSet than refusedOfAll: pods write what they say, and another text is another event.
	refusedEvery = time.Minute
	refusedOfOne = 3
	refusedOfAll = 100
)

// said are the events of what is refused since a time, for each IngressDaemonSet by name.
type said map[types.NamespacedName]*saidOf

type saidOf struct {
	since time.Time
	times map[string]int
	all   int
}

// from counts an event, or gives from when on it may be made.
func (s said) from(one refusedResource, now time.Time) (at time.Time) {
	of := s[one.IngressDaemonSet]
	if of == nil || now.Sub(of.since) >= refusedEvery {
		of = &saidOf{since: now, times: map[string]int{}}
		s[one.IngressDaemonSet] = of
	}
	if of.all == refusedOfAll || of.times[one.Name] == refusedOfOne {
		return of.since.Add(refusedEvery)
	}
	of.all++
	of.times[one.Name]++
	return at
}

// ReasonMalformed: an object is not as this controller knows its kind.
const ReasonMalformed = "Malformed"

// unread are warnings about objects that cannot be read as they are now.
func (r *Reconciler) unread() (out []routing.Event) {
	for ref, why := range r.malformed {
		comes := "nothing is made of it"
		if r.objects[ref] != nil {
			comes = "what was made of it before it was changed so stays"
		}
		out = append(out, routing.Event{Object: ref, Reason: ReasonMalformed, Message: why + ": " + comes})
	}
	return out
}

// ReasonStatusFull: the status of an HTTPRoute has entries of other controllers, and no room for ours.
const ReasonStatusFull = "StatusFull"

// unsaid are warnings about statuses in which there is no room.
func (r *Reconciler) unsaid() (out []routing.Event) {
	for ref, n := range r.statuses.crowdedRoutes() {
		out = append(out, routing.Event{Object: ref, Reason: ReasonStatusFull, Message: fmt.Sprintf(
			"its status has room for %d parents, and entries of other controllers leave none for %d of those that it names: remove the entries of controllers that are gone", mostRouteParents, n)})
	}
	return out
}

// ReasonNotTold: proxies cannot be told of what an object asks for.
const ReasonNotTold = "NotTold"

// untold are warnings about what proxies cannot be told.
func (r *Reconciler) untold() (out []routing.Event) {
	for set, withheld := range r.withheld {
		for name, w := range withheld.all {
			object, _ := routing.OriginOf(name)
			out = append(out, routing.Event{Object: object, Reason: ReasonNotTold, Message: fmt.Sprintf(
				"the proxies of IngressDaemonSet %s cannot be told of %s: %s", set, name, w.reason)})
		}
	}
	return out
}

// ReasonRefused: proxies were told of what an object asks for, and cannot use it.
const ReasonRefused = "Refused"

// refused is a warning about what proxies cannot use: what they were told before of the same serves on.
func (r *Reconciler) refused(one refusedResource) routing.Event {
	object, is := routing.OriginOf(one.Name)
	if !is || r.objects[object] == nil && (object.Kind != kindSecret || r.secrets.object(object) == nil) {
		object = routing.Ref{Kind: v1alpha1.Kind.Kind, Namespace: one.IngressDaemonSet.Namespace, Name: one.IngressDaemonSet.Name}
	}
	reason, why := ReasonRefused, one.Reason
	if port, is := strings.CutPrefix(one.Reason, wire.PortUnavailable); is {
		reason, why = routing.ReasonPortUnavailable, "they cannot listen at "+port
	}
	return routing.Event{Object: object, Reason: reason, Message: fmt.Sprintf(
		"proxies of IngressDaemonSet %s cannot use %s: %s (pod %s)", one.IngressDaemonSet, cmp.Or(one.Name, "what they are told"), why, one.Pod)}
}

// regarding is the object of an event, or names it where it is not there.
func (r *Reconciler) regarding(ref routing.Ref) runtime.Object {
	if object := r.objects[ref]; object != nil {
		return object
	}
	if ref.Kind == kindSecret {
		if object := r.secrets.object(ref); object != nil {
			return object
		}
	}
	return &corev1.ObjectReference{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}
}
