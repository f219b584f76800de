package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const (
	// writeTime is how long the write of one status may take.
	writeTime = 10 * time.Second
	// writesPerSecond and writesAtOnce bound writes of statuses: a node that comes or goes may change those of all
	// Ingresses, and etcd keeps each version of them for a while.
	writesPerSecond = 10
	writesAtOnce    = 100
	// leadsAgain is after how long a replica that does not lead looks again whether it does.
	leadsAgain = 5 * time.Second
)

// statuses writes statuses of objects, by passes of its own: what proxies are told waits for no write. What fails
// is tried again after a while, and keeps no other from being written.
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

	mu sync.Mutex
	// objects are those that have a status, wanted is what the compiler says of it.
	objects map[routing.Ref]client.Object
	wanted  map[routing.Ref]status
	// due are those at which was not looked since they, or what is wanted of them, changed.
	due map[routing.Ref]due
	// changes counts those of all.
	changes uint64
	// complete says whether proxies were told of all there is: before that nothing is written, because what is not
	// known yet seems to be gone.
	complete bool
}

// status is what the compiler says, and at which position proxies were told the same.
type status struct {
	routing.Status
	position uint64
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
	s := &statuses{
		client: c, leads: leads, trigger: trigger, acknowledged: acknowledged, pace: rate.NewLimiter(writesPerSecond, writesAtOnce),
		objects: map[routing.Ref]client.Object{}, wanted: map[routing.Ref]status{}, due: map[routing.Ref]due{},
	}
	acknowledged.mu.Lock()
	defer acknowledged.mu.Unlock()
	acknowledged.changed, acknowledged.gatewayChanged, acknowledged.progress = s.furtherOn, s.gatewayFurtherOn, s.progress
	return s
}

// note takes what came and went, what was made of it, whether that is all there is, and the positions at which proxies
// were told.
func (s *statuses) note(o *observed, compiled routing.Result, complete bool, positions map[types.NamespacedName]uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ref := range o.gone {
		delete(s.objects, ref)
	}
	for ref := range o.malformed {
		// Nothing can be written beside what could not be read.
		delete(s.objects, ref)
	}
	for _, object := range o.there {
		if hasStatus(object) {
			s.objects[refOf(object)] = object
			s.changed(refOf(object))
		}
	}
	for _, ref := range compiled.Settled {
		delete(s.wanted, ref)
	}
	for _, says := range compiled.Statuses {
		next := status{Status: says}
		if says.Gateway != nil {
			next.position = positions[says.Gateway.IngressDaemonSet]
		}
		s.wanted[says.Object] = next
		s.changed(says.Object)
	}
	if complete && !s.complete {
		s.complete = true
		s.atFirst(positions)
	}
	maps.DeleteFunc(s.due, func(ref routing.Ref, _ due) bool { return !s.known(ref) })
	if len(s.due) > 0 && s.complete {
		s.trigger()
	}
}

// atFirst notes at which positions proxies were told of what was wanted before they were told anything.
func (s *statuses) atFirst(positions map[types.NamespacedName]uint64) {
	for ref, wanted := range s.wanted {
		if wanted.Gateway != nil {
			wanted.position = positions[wanted.Gateway.IngressDaemonSet]
			s.wanted[ref] = wanted
		}
	}
}

// changed has one looked at in the next pass.
func (s *statuses) changed(ref routing.Ref) {
	s.changes++
	d := s.due[ref]
	d.change, d.again = s.changes, time.Time{}
	s.due[ref] = d
}

// further has one looked at in the next pass, or when what failed is tried again: nothing else is wanted of it.
func (s *statuses) further(ref routing.Ref) {
	s.changes++
	d := s.due[ref]
	d.change = s.changes
	s.due[ref] = d
}

// furtherOn has the Gateways of an IngressDaemonSet looked at, whose proxies are further.
func (s *statuses) furtherOn(set types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	any := false
	for ref, object := range s.objects {
		if wanted, is := s.wanted[ref]; is && wanted.Gateway != nil && wanted.Gateway.IngressDaemonSet == set && !isProgrammed(object, wanted.Generation) {
			s.further(ref)
			any = true
		}
	}
	if any && s.complete {
		s.trigger()
	}
}

// gatewayFurtherOn has a Gateway looked at.
func (s *statuses) gatewayFurtherOn(gateway types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ref := (routing.Ref{Kind: "Gateway", Namespace: gateway.Namespace, Name: gateway.Name}); s.known(ref) && s.complete {
		s.further(ref)
		s.trigger()
	}
}

// progress is how far the proxies of this process are with each Gateway.
func (s *statuses) progress() []Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Progress{}
	for ref, wanted := range s.wanted {
		if wanted.Gateway != nil {
			p := Progress{Gateway: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, Generation: wanted.Generation}
			p.Have, p.All = s.acknowledged.Of(wanted.Gateway.IngressDaemonSet, wanted.position)
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Progress) int {
		return cmp.Or(cmp.Compare(a.Gateway.Namespace, b.Gateway.Namespace), cmp.Compare(a.Gateway.Name, b.Gateway.Name))
	})
	return out
}

// known reports whether there is such an object, and something is to be said of it.
func (s *statuses) known(ref routing.Ref) bool {
	_, wanted := s.wanted[ref]
	return wanted && s.objects[ref] != nil
}

// Reconcile writes all that are due, where this process leads.
func (s *statuses) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	failed := 0
	for _, ref := range s.refs() {
		if !s.leads() {
			return ctrl.Result{RequeueAfter: leadsAgain}, nil
		}
		err := s.write(ctx, ref)
		if err != nil && !onepass.OnlyConflicts(err) {
			if failed++; failed <= 3 {
				log.FromContext(ctx).Error(err, "writing a status failed", "object", ref.String())
			}
		}
	}
	return onepass.Next(s.again()), nil
}

// refs are those that are due, in order.
func (s *statuses) refs() []routing.Ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.complete {
		return nil
	}
	return slices.SortedFunc(maps.Keys(s.due), func(a, b routing.Ref) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// write writes a status as it is to be now, if it differs, at its turn.
func (s *statuses) write(ctx context.Context, ref routing.Ref) error {
	for turn := false; ; turn = true {
		object, wanted, d, is := s.next(ref)
		if !is || !s.leads() {
			return nil
		}
		next := withStatus(object, wanted, s.acknowledged)
		if next == nil {
			s.looked(ref, d, nil)
			return nil
		}
		if turn {
			err := s.update(ctx, next)
			s.looked(ref, d, err)
			return err
		}
		if err := s.pace.Wait(ctx); err != nil {
			return fmt.Errorf("waiting for its turn: %w", err)
		}
	}
}

// next is one that is to be looked at now, if it is.
func (s *statuses) next(ref routing.Ref) (object client.Object, wanted status, d due, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, is = s.due[ref]
	return s.objects[ref], s.wanted[ref], d, is && s.known(ref) && !time.Now().Before(d.again)
}

// looked notes how it went, unless what was looked at has changed meanwhile.
func (s *statuses) looked(ref routing.Ref, at due, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, is := s.due[ref]
	switch {
	case !is || d.change != at.change:
	case err == nil:
		delete(s.due, ref)
	default:
		d.again = time.Now().Add(d.retries.Pause(err))
		s.due[ref] = d
	}
}

// again is when the next one that failed is tried again, zero for never.
func (s *statuses) again() (at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.due {
		at = onepass.Earliest(at, d.again)
	}
	return at
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
