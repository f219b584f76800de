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
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// writeTime is how long the write of one status may take.
	writeTime = 10 * time.Second
	// writesPerSecond and writesAtOnce bound writes of statuses: a node that comes or goes may change those of all
	// Ingresses, and etcd keeps each version of them for a while.
	writesPerSecond = 10
	writesAtOnce    = 100
)

// statuses writes where Ingresses are reached, by passes of its own: what proxies are told waits for no write.
// What fails is tried again after a while, and keeps no other from being written.
type statuses struct {
	client client.Client
	// leads says whether no other controller can lead at this moment.
	leads func() bool
	// trigger calls for a pass.
	trigger func()
	pace    *rate.Limiter

	mu sync.Mutex
	// due are those that differ from what is there.
	due map[routing.Ref]status

	// tried are those of due that were written, or could not be; of passes alone.
	tried map[routing.Ref]try
}

// status is what is to be written, and beside which object.
type status struct {
	in   *networkingv1.Ingress
	next routing.IngressStatus
}

// try is how a write went.
type try struct {
	// version is that of the object beside which it was written, or was to be. It is not written beside that
	// again, because the cache is late, unless it failed.
	version string
	// again is when what failed is tried again, zero where it did not.
	again   time.Time
	retries onepass.Retries
}

func newStatuses(c client.Client, leads func() bool, trigger func()) *statuses {
	return &statuses{client: c, leads: leads, trigger: trigger, pace: rate.NewLimiter(writesPerSecond, writesAtOnce), tried: map[routing.Ref]try{}}
}

// want says which statuses are to be written from now on, and that no other is.
func (s *statuses) want(all []routing.Status, objects map[routing.Ref]client.Object) {
	due := map[routing.Ref]status{}
	for _, one := range all {
		if in, is := objects[one.Object].(*networkingv1.Ingress); is && one.Ingress != nil {
			due[one.Object] = status{in, *one.Ingress}
		}
	}
	s.mu.Lock()
	s.due = due
	s.mu.Unlock()
	if len(due) > 0 {
		s.trigger()
	}
}

// Reconcile writes all that are due, where this process leads.
func (s *statuses) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var failed []error
	for _, ref := range s.refs() {
		if _, is := s.next(ref); !is || !s.leads() {
			continue
		}
		if err := s.pace.Wait(ctx); err != nil {
			return ctrl.Result{}, fmt.Errorf("waiting for the turn of %s: %w", ref, err)
		}
		one, is := s.next(ref)
		if !is || !s.leads() {
			continue
		}
		if err := s.write(ctx, one); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", ref, err))
			s.tried[ref] = s.tried[ref].failed(one.in.ResourceVersion, err)
		} else {
			s.tried[ref] = try{version: one.in.ResourceVersion}
		}
	}
	for _, err := range failed[:min(len(failed), 3)] {
		if !onepass.OnlyConflicts(err) {
			log.FromContext(ctx).Error(err, "writing a status failed", "all", len(failed))
		}
	}
	return onepass.Next(s.again()), nil
}

// refs are those that are due, in order. What was tried of others is forgotten.
func (s *statuses) refs() []routing.Ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.tried, func(ref routing.Ref, _ try) bool { _, due := s.due[ref]; return !due })
	return slices.SortedFunc(maps.Keys(s.due), func(a, b routing.Ref) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// next is a status as it is to be written now, if it is.
func (s *statuses) next(ref routing.Ref) (one status, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, due := s.due[ref]
	if tried := s.tried[ref]; due && tried.version == one.in.ResourceVersion {
		return one, !tried.again.IsZero() && !time.Now().Before(tried.again)
	}
	return one, due
}

// again is when the next one that failed is tried again, zero for never.
func (s *statuses) again() (at time.Time) {
	for _, t := range s.tried {
		at = onepass.Earliest(at, t.again)
	}
	return at
}

func (t try) failed(version string, err error) try {
	pause := t.retries.Pause(err)
	return try{version: version, again: time.Now().Add(pause), retries: t.retries}
}

// write writes beside the version that was compiled, so that no entry of somebody else is lost. Which entries are
// ours is written with them: the API server takes annotations of an Ingress with its status.
func (s *statuses) write(ctx context.Context, one status) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	next := one.in.DeepCopy()
	next.Status.LoadBalancer.Ingress = one.next.LoadBalancer
	if one.next.Addresses == "" {
		delete(next.Annotations, routing.AnnotationAddresses)
	} else {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, routing.AnnotationAddresses, one.next.Addresses)
	}
	return client.IgnoreNotFound(s.client.Status().Update(ctx, next, client.FieldOwner(FieldManager)))
}
