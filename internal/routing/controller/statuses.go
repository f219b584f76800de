package controller

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const (
	// writeTime is how long the write of one status may take.
	writeTime = 10 * time.Second
	// leadsAgain is after how long a replica that does not lead looks again whether it does.
	leadsAgain = 5 * time.Second
)

// statuses writes statuses of objects, by passes of its own: what proxies are told waits for no write. What fails
// is tried again after a while, and keeps no other from being written. turns.go writes them, queue.go says which is next.
type statuses struct {
	client client.Client
	// raw is an HTTPRoute as the API server has it.
	raw func(context.Context, types.NamespacedName) (*unstructured.Unstructured, error)
	// leads says whether no other controller can lead at this moment.
	leads func() bool
	// trigger calls for a pass.
	trigger      func()
	acknowledged *Acknowledgements
	pace         *rate.Limiter
	// hearing is for how long who begins to lead writes no status of a Gateway: others tell it first of their proxies.
	hearing time.Duration

	mu sync.Mutex
	// since is when this process began to lead, zero while it does not.
	since time.Time
	turns turns
	// counts are how many proxies have what was made of each Gateway.
	counts counts
	// pending are the Gateways of each IngressDaemonSet of which it is still to be said that its proxies have them.
	pending map[types.NamespacedName]map[routing.Ref]bool
	// crowded are HTTPRoutes in whose statuses there is no room for so many entries of ours.
	crowded map[routing.Ref]int
	// objects are those that have a status, wanted is what the compiler says of it, gatewayRefs are the Gateways of which
	// it says something.
	objects     map[routing.Ref]client.Object
	wanted      map[routing.Ref]status
	gatewayRefs map[routing.Ref]bool
	// due are those of which it is not known that they are as they are to be. Among them, unseen are those at which was not
	// looked at all since they became so, and failed those that failed in this pass: they wait for another. All others that
	// may be written are in the queue.
	due            map[routing.Ref]due
	unseen, failed map[routing.Ref]bool
	queue          *queue
	// changes counts those of all.
	changes uint64
	// complete says whether proxies were told of all there is, partly whether some were: before that nothing is written,
	// or of Ingresses alone, because what is not known yet seems to be gone.
	complete, partly bool
}

// status is what the compiler says, at which position proxies were told the same, and what is told of those that lag.
type status struct {
	routing.Status
	position uint64
	behind   string
}

// due is a status that may have to be written.
type due struct {
	// change is which one made it due: no other of any time has its number.
	change uint64
	// again is when what failed is tried again, zero where nothing did.
	again   time.Time
	retries onepass.Retries
}

func newStatuses(c client.Client, leads func() bool, trigger func(), acknowledged *Acknowledgements) *statuses {
	t := newTurns()
	s := &statuses{
		client: c, leads: leads, trigger: trigger, acknowledged: acknowledged, pace: rate.NewLimiter(writesPerSecond, writesAtOnce),
		turns: t, counts: counts{every: countEvery}, queue: newQueue(t.last), unseen: map[routing.Ref]bool{}, failed: map[routing.Ref]bool{}, pending: map[types.NamespacedName]map[routing.Ref]bool{}, crowded: map[routing.Ref]int{},
		objects: map[routing.Ref]client.Object{}, wanted: map[routing.Ref]status{}, gatewayRefs: map[routing.Ref]bool{}, due: map[routing.Ref]due{},
	}
	acknowledged.mu.Lock()
	defer acknowledged.mu.Unlock()
	acknowledged.changed, acknowledged.objectChanged, acknowledged.progress = s.furtherOn, s.objectFurtherOn, s.progress
	return s
}

// note takes what came and went, what was made of it, whether that is all there is, and the positions at which proxies
// were told.
func (s *statuses) note(o *observed, compiled routing.Result, complete bool, positions map[types.NamespacedName]uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ref := range o.gone {
		delete(s.objects, ref)
		delete(s.turns.written, ref)
		s.changed(ref)
	}
	for ref := range o.malformed {
		// Nothing can be written beside what could not be read.
		delete(s.objects, ref)
		s.changed(ref)
	}
	for _, object := range o.there {
		if hasStatus(object) {
			s.objects[routing.RefOf(object)] = object
			s.changed(routing.RefOf(object))
		}
	}
	for _, ref := range compiled.Settled {
		delete(s.wanted, ref)
		delete(s.gatewayRefs, ref)
		s.changed(ref)
	}
	for _, says := range compiled.Statuses {
		next := status{Status: says}
		if says.Gateway != nil {
			next.position = positions[says.Gateway.IngressDaemonSet]
			s.gatewayRefs[says.Object] = true
		}
		s.wanted[says.Object] = next
		s.changed(says.Object)
	}
	partly := s.partly || complete || len(positions) > 0
	if partly && !s.partly || complete && !s.complete {
		s.begin(partly, complete, positions)
	}
	if len(s.due) > 0 && s.partly {
		s.trigger()
	}
}

// begin has those written that waited until proxies were told.
func (s *statuses) begin(partly, complete bool, positions map[types.NamespacedName]uint64) {
	if complete {
		s.atFirst(positions)
	}
	s.partly, s.complete = partly, s.complete || complete
	for ref := range s.due {
		s.enqueue(ref)
	}
}

// atFirst notes at which positions proxies were told of what was wanted before they were told anything.
func (s *statuses) atFirst(positions map[types.NamespacedName]uint64) {
	for ref := range s.gatewayRefs {
		wanted := s.wanted[ref]
		wanted.position = positions[wanted.Gateway.IngressDaemonSet]
		s.wanted[ref] = wanted
	}
}

// changed has one looked at in the next pass, where there is such an object and something is to be said of it.
func (s *statuses) changed(ref routing.Ref) {
	if s.index(ref); !s.known(ref) {
		s.settle(ref)
		return
	}
	if d, is := s.due[ref]; is {
		d.again = time.Time{}
		s.due[ref] = d
	}
	s.further(ref)
}

// further has one looked at in the next pass, or when what failed is tried again: nothing else is wanted of it.
func (s *statuses) further(ref routing.Ref) {
	s.changes++
	d := s.due[ref]
	d.change = s.changes
	s.due[ref], s.unseen[ref] = d, true
	s.enqueue(ref)
}

// settle has one written no more.
func (s *statuses) settle(ref routing.Ref) {
	delete(s.due, ref)
	delete(s.unseen, ref)
	s.queue.drop(ref)
}

// enqueue has one that is due written in its turn, where all is known that its status says.
func (s *statuses) enqueue(ref routing.Ref) {
	if d, is := s.due[ref]; is && !s.failed[ref] && (s.complete || s.partly && ref.Kind == "Ingress") {
		s.queue.put(ref, s.from(ref), d.change)
	}
}

// furtherOn has those Gateways of an IngressDaemonSet looked at of which a proxy has by now what it had not.
func (s *statuses) furtherOn(set types.NamespacedName, after, upTo uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	any := false
	for ref := range s.pending[set] {
		if at := s.wanted[ref].position; after < at && at <= upTo {
			s.further(ref)
			any = true
		}
	}
	if any && s.complete {
		s.trigger()
	}
}

// index notes whether it is still to be said of a Gateway that proxies have it, and whether there is room for what is to
// be said of an HTTPRoute.
func (s *statuses) index(ref routing.Ref) {
	switch ref.Kind {
	case "Gateway":
		s.indexGateway(ref)
	case "HTTPRoute":
		delete(s.crowded, ref)
		if wanted, object := s.wanted[ref], s.objects[ref]; object != nil && wanted.HTTPRoute != nil {
			if n := overflow(object.(*gatewayv1.HTTPRoute), wanted.HTTPRoute); n > 0 {
				s.crowded[ref] = n
			}
		}
	}
}

// crowdedRoutes are the HTTPRoutes in whose statuses there is no room, and for how many entries.
func (s *statuses) crowdedRoutes() map[routing.Ref]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.crowded)
}

func (s *statuses) indexGateway(ref routing.Ref) {
	for set, all := range s.pending {
		if delete(all, ref); len(all) == 0 {
			delete(s.pending, set)
		}
	}
	wanted, object := s.wanted[ref], s.objects[ref]
	if object == nil || wanted.Gateway == nil || isProgrammed(object.(*gatewayv1.Gateway).Status.Conditions, wanted) {
		return
	}
	set := wanted.Gateway.IngressDaemonSet
	if s.pending[set] == nil {
		s.pending[set] = map[routing.Ref]bool{}
	}
	s.pending[set][ref] = true
}

// objectFurtherOn has an object looked at.
func (s *statuses) objectFurtherOn(ref routing.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known(ref) && s.complete {
		s.further(ref)
		s.trigger()
	}
}

// progress is how far the proxies of this process are with each Gateway.
func (s *statuses) progress() []gatewayProgress {
	out, known := []gatewayProgress{}, map[types.NamespacedName]proxies{}
	for ref, wanted := range s.gateways() {
		set := wanted.Gateway.IngressDaemonSet
		here, is := known[set]
		if !is {
			here = s.acknowledged.of(set)
			known[set] = here
		}
		out = append(out, gatewayProgress{types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, set, wanted.Generation, here.have(wanted.position), len(here)})
	}
	slices.SortFunc(out, func(a, b gatewayProgress) int {
		return cmp.Or(cmp.Compare(a.Gateway.Namespace, b.Gateway.Namespace), cmp.Compare(a.Gateway.Name, b.Gateway.Name))
	})
	return out
}

// gateways are what is wanted of each.
func (s *statuses) gateways() map[routing.Ref]status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[routing.Ref]status{}
	for ref := range s.gatewayRefs {
		out[ref] = s.wanted[ref]
	}
	return out
}

// known reports whether there is such an object, and something is to be said of it.
func (s *statuses) known(ref routing.Ref) bool {
	_, wanted := s.wanted[ref]
	return wanted && s.objects[ref] != nil
}

// update writes beside the version that was compiled, so that nothing that somebody else wrote is lost.
func (s *statuses) update(ctx context.Context, next client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	if route, is := next.(*gatewayv1.HTTPRoute); is {
		raw, err := s.raw(ctx, client.ObjectKeyFromObject(route))
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		if next, err = beside(raw, route); err != nil {
			return err
		}
	}
	return client.IgnoreNotFound(s.client.Status().Update(ctx, next, client.FieldOwner(FieldManager)))
}
