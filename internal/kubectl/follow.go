package kubectl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// outage is a while for which the API server does not answer: since when, and the last error.
type outage struct {
	since time.Time
	err   error
}

// text is a line about it, empty where there is none.
func (a outage) text(now time.Time) string {
	if a.err == nil {
		return ""
	}
	return printable(fmt.Sprintf("The API server is away for %s, and is asked again: %v", seconds(now.Sub(a.since)), a.err)) + "\n"
}

// sayAgain is after how long it is said again that the API server is still away.
const sayAgain = time.Minute

// sayAway is how a command whose lines stay says that the API server is away: when that begins, and now and
// then while it lasts.
func (o *operator) sayAway() func(outage) {
	var said time.Time
	return func(away outage) {
		if now := time.Now(); away.since.After(said) || now.Sub(said) >= sayAgain {
			said = now
			fmt.Fprint(o.streams.ErrOut, away.text(now))
		}
	}
}

// askedAgain is after how long an API server is asked again that ended a watch, or did not answer.
const askedAgain = time.Second

// rewatch calls watch until it is done, fails, or the context ends. That the API server ends a watch now
// and then, and knows no more of the past, is no failure. Nor is it that the API server is away for a while,
// of which away is told: where watch has heard from it before, for otherwise it may be none.
func rewatch(ctx context.Context, watch func(heard func()) (done bool, err error), away func(outage)) error {
	heard, lasts := false, outage{}
	for {
		done, err := watch(func() { heard, lasts = true, outage{} })
		switch {
		case done:
			return err
		case ctx.Err() != nil:
			return nil
		case err == nil, apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		case !heard || !passes(err):
			return err
		default:
			if lasts.err == nil {
				lasts.since = time.Now()
			}
			lasts.err = err
			away(lasts)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(askedAgain):
		}
	}
}

// passes reports whether an error is of an API server that is away, or overloaded, or of a network that is, for
// a while.
func passes(err error) bool {
	if broken, ok := errors.AsType[*net.OpError](err); ok && broken.Op == "dial" {
		return true
	}
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err)
}

// follow calls see with the IngressDaemonSet as it is and each time that it
// changes, until that is done or the context ends.
func (o *operator) follow(ctx context.Context, name string, see func(*v1alpha1.IngressDaemonSet) (done bool, err error), away func(outage)) error {
	return rewatch(ctx, func(heard func()) (bool, error) {
		return o.followOnce(ctx, name, func(set *v1alpha1.IngressDaemonSet) (bool, error) {
			heard()
			return see(set)
		})
	}, away)
}

func (o *operator) followOnce(ctx context.Context, name string, see func(*v1alpha1.IngressDaemonSet) (bool, error)) (done bool, err error) {
	c, set, err := o.get(ctx, name)
	if err != nil {
		return false, err
	}
	w, err := c.Watch(ctx, &v1alpha1.IngressDaemonSetList{}, client.InNamespace(set.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", name)})
	if err != nil {
		return false, err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		set, ok := event.Object.(*v1alpha1.IngressDaemonSet)
		switch {
		case !ok:
			return false, apierrors.FromObject(event.Object)
		case event.Type == watch.Deleted:
			return false, fmt.Errorf("ingressdaemonset %q was deleted", name)
		}
		if done, err := see(set); done || err != nil {
			return true, err
		}
	}
	return false, nil
}

// followAll calls see with all IngressDaemonSets as they are and each time that one changes, until the
// context ends.
func (o *operator) followAll(ctx context.Context, everywhere bool, see func([]v1alpha1.IngressDaemonSet) error, away func(outage)) error {
	return rewatch(ctx, func(heard func()) (bool, error) {
		return o.followAllOnce(ctx, everywhere, func(sets []v1alpha1.IngressDaemonSet) error {
			heard()
			return see(sets)
		})
	}, away)
}

// followAllOnce is done where what it sees cannot be shown.
func (o *operator) followAllOnce(ctx context.Context, everywhere bool, see func([]v1alpha1.IngressDaemonSet) error) (done bool, err error) {
	api, namespace, err := o.connectTo(everywhere)
	if err != nil {
		return false, err
	}
	var list v1alpha1.IngressDaemonSetList
	if err := api.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return false, err
	}
	sets := map[types.NamespacedName]v1alpha1.IngressDaemonSet{}
	for _, set := range list.Items {
		sets[client.ObjectKeyFromObject(&set)] = set
	}
	if err := see(inOrder(sets)); err != nil {
		return true, err
	}
	since := &client.ListOptions{Namespace: namespace, Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}}
	w, err := api.Watch(ctx, &v1alpha1.IngressDaemonSetList{}, since)
	if err != nil {
		return false, err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		set, ok := event.Object.(*v1alpha1.IngressDaemonSet)
		if !ok {
			return false, apierrors.FromObject(event.Object)
		}
		if sets[client.ObjectKeyFromObject(set)] = *set; event.Type == watch.Deleted {
			delete(sets, client.ObjectKeyFromObject(set))
		}
		if err := see(inOrder(sets)); err != nil {
			return true, err
		}
	}
	return false, nil
}
