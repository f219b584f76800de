package controller

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// replicaState is what a replica tells the leader of its proxies.
type replicaState struct {
	Proxies  []proxyCount
	Gateways []gatewayProgress
	Refused  []refusedResource
}

// proxyCount is how many proxies of an IngressDaemonSet a replica has.
type proxyCount struct {
	IngressDaemonSet types.NamespacedName
	All              int
}

// gatewayProgress is how many of a replica's proxies have what was made of a Gateway for an IngressDaemonSet, and how many
// there are.
type gatewayProgress struct {
	Gateway, IngressDaemonSet types.NamespacedName
	Generation                int64
	Have, All                 int
}

// refusedResource is a resource, by its name on the stream, that proxies cannot use, why, and one pod that says so.
type refusedResource struct {
	IngressDaemonSet  types.NamespacedName
	Name, Reason, Pod string
}

// same leaves out which pod says so.
func (r refusedResource) same(o refusedResource) bool {
	return r.IngressDaemonSet == o.IngressDaemonSet && r.Name == o.Name && r.Reason == o.Reason
}

// Tell says, as JSON, how far the proxies of this replica are, for a leader elsewhere.
func (a *Acknowledgements) Tell() ([]byte, error) {
	a.mu.Lock()
	told := replicaState{Refused: a.refusedHere()}
	connected := map[types.NamespacedName]int{}
	for _, p := range a.pods {
		if len(p.open) > 0 {
			connected[p.last.IngressDaemonSet]++
		}
	}
	a.mu.Unlock()
	for set, all := range connected {
		told.Proxies = append(told.Proxies, proxyCount{set, all})
	}
	slices.SortFunc(told.Proxies, func(a, b proxyCount) int {
		return cmp.Compare(a.IngressDaemonSet.String(), b.IngressDaemonSet.String())
	})
	told.Gateways = a.progress()
	return json.Marshal(told)
}

// Heard takes what another replica tells, nil when it tells nothing any more: what its proxies refuse counts until
// they, or the replica itself, must have come again. What cannot be read is as good as nothing: a replica of another
// version may tell more.
func (a *Acknowledgements) Heard(replica uint64, message []byte) {
	next := replicaState{}
	if message != nil && json.Unmarshal(message, &next) != nil {
		next = replicaState{}
	}
	a.mu.Lock()
	before := a.elsewhere[replica]
	if message == nil {
		next.Refused = before.Refused
	}
	a.elsewhere[replica] = next
	connected, changed := a.changed, a.objectChanged
	a.mu.Unlock()
	for _, c := range append(slices.Clone(before.Proxies), next.Proxies...) {
		if !slices.Contains(before.Proxies, c) || !slices.Contains(next.Proxies, c) {
			connected(c.IngressDaemonSet, 0, math.MaxUint64)
		}
	}
	for _, p := range append(slices.Clone(before.Gateways), next.Gateways...) {
		if !slices.Contains(before.Gateways, p) || !slices.Contains(next.Gateways, p) {
			changed(routing.Ref{Kind: "Gateway", Namespace: p.Gateway.Namespace, Name: p.Gateway.Name})
		}
	}
	a.refusedNow(before.Refused, next.Refused)
	if message == nil {
		a.after(func() { a.forgetReplica(replica) })
	}
}

func (a *Acknowledgements) forgetReplica(replica uint64) {
	a.mu.Lock()
	before := a.elsewhere[replica]
	delete(a.elsewhere, replica)
	a.mu.Unlock()
	a.refusedNow(before.Refused, nil)
}

// refusedNow says what is refused where something else was before.
func (a *Acknowledgements) refusedNow(before, after []refusedResource) {
	if slices.Equal(before, after) {
		return
	}
	a.mu.Lock()
	changed, refused := a.objectChanged, a.refusedChanged
	a.mu.Unlock()
	objects := map[routing.Ref]bool{}
	for _, one := range slices.Concat(before, after) {
		if object, is := routing.OriginOf(one.Name); is && (object.Kind == "Gateway" || object.Kind == "HTTPRoute") {
			objects[object] = true
		}
	}
	for object := range objects {
		changed(object)
	}
	refused()
}

// ofListeners are what the status of a Gateway has to say of its listeners that proxies of an IngressDaemonSet cannot
// use, by their names.
func (a *Acknowledgements) ofListeners(set, gateway types.NamespacedName) map[string]routing.Condition {
	out := map[string]routing.Condition{}
	for _, one := range a.refused() {
		listener, is := strings.CutPrefix(one.Name, wire.FullName(wire.KindListener, "Gateway/"+gateway.String()+"/"))
		section, _, _ := strings.Cut(listener, "/")
		if _, said := out[section]; !is || said || one.IngressDaemonSet != set {
			continue
		}
		c := routing.Condition{Type: "Programmed", Status: "False", Reason: "Invalid", Message: fmt.Sprintf("pod %s cannot use it: %s", one.Pod, one.Reason)}
		if port, is := strings.CutPrefix(one.Reason, wire.PortUnavailable); is {
			c.Reason, c.Message = routing.ReasonPortUnavailable, fmt.Sprintf("pod %s cannot listen at %s", one.Pod, port)
		}
		out[section] = c
	}
	return out
}

// ofRoute is what the status of an HTTPRoute has to say where proxies of an IngressDaemonSet cannot use a part of it, and
// use on what they were told before; ok is false where they can.
func (a *Acknowledgements) ofRoute(set, route types.NamespacedName) (c routing.Condition, ok bool) {
	for _, one := range a.refused() {
		if object, is := routing.OriginOf(one.Name); !is || one.IngressDaemonSet != set || object != (routing.Ref{Kind: "HTTPRoute", Namespace: route.Namespace, Name: route.Name}) {
			continue
		}
		return routing.Condition{
			Type: partiallyInvalid, Status: "True", Reason: string(gatewayv1.RouteReasonUnsupportedValue),
			Message: fmt.Sprintf("pod %s cannot use %s, and uses what it was told before: %s", one.Pod, one.Name, one.Reason),
		}, true
	}
	return c, false
}

// partiallyInvalid is the condition of an HTTPRoute of which a part is not served, or as it was before.
const partiallyInvalid = string(gatewayv1.RouteConditionPartiallyInvalid)

// ofOthers is how many proxies of other replicas have what was made of a Gateway's generation for an IngressDaemonSet,
// and how many there are: who has an older one has not this one, and who says nothing of it has none.
func (a *Acknowledgements) ofOthers(gateway, set types.NamespacedName, generation int64) (have, all int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, told := range a.elsewhere {
		if at := slices.IndexFunc(told.Gateways, func(p gatewayProgress) bool { return p.Gateway == gateway && p.IngressDaemonSet == set }); at >= 0 {
			p := told.Gateways[at]
			if all += p.All; p.Generation >= generation {
				have += p.Have
			}
		} else if at := slices.IndexFunc(told.Proxies, func(c proxyCount) bool { return c.IngressDaemonSet == set }); at >= 0 {
			all += told.Proxies[at].All
		}
	}
	return have, all
}

// refused is all that proxies cannot use, once each, also those of other replicas.
func (a *Acknowledgements) refused() []refusedResource {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.refusedHere()
	for _, told := range a.elsewhere {
		all = append(all, told.Refused...)
	}
	return distinct(all)
}

func (a *Acknowledgements) refusedHere() (all []refusedResource) {
	for _, p := range a.pods {
		all = append(all, refusedBy(p.last)...)
	}
	return distinct(all)
}

func refusedBy(r delta.Report) (all []refusedResource) {
	for _, refusal := range r.Refused {
		all = append(all, refusedResource{r.IngressDaemonSet, refusal.Name, refusal.Reason, r.Pod})
	}
	return all
}

// distinct has each once, of the first pod by its name.
func distinct(all []refusedResource) []refusedResource {
	slices.SortFunc(all, func(a, b refusedResource) int {
		return cmp.Or(
			cmp.Compare(a.IngressDaemonSet.String(), b.IngressDaemonSet.String()), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Pod, b.Pod),
		)
	})
	return slices.CompactFunc(all, refusedResource.same)
}
