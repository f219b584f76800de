package issuer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/authority"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Reasons of events.
const (
	// ReasonAuthoritiesNotUsable: the Secret is left as it is.
	ReasonAuthoritiesNotUsable = "AuthoritiesNotUsable"
	// ReasonAuthoritiesNotWritten: the Secret cannot be written.
	ReasonAuthoritiesNotWritten = "AuthoritiesNotWritten"
	// ReasonAddressNotKnown: the Service does not say where controllers are.
	ReasonAddressNotKnown = "AddressNotKnown"
	// ReasonAuthoritiesNotPublished: the ConfigMap of an IngressDaemonSet's namespace cannot be written.
	ReasonAuthoritiesNotPublished = "AuthoritiesNotPublished"
)

const (
	// conflictPause is after how long what conflicted is tried again, retryPause that of what failed.
	conflictPause = 100 * time.Millisecond
	retryPause    = 5 * time.Second
)

// warning is what somebody has to look at. The object is named by a reference: the Secret itself is handed to
// nobody who may log it.
type warning struct {
	about           corev1.ObjectReference
	reason, message string
}

// report tells of warnings, and says when to look again, zero for not before something changes.
func (r *Reconciler) report(ctx context.Context, o *observed, d authority.Decision, failed failures) (again time.Time) {
	r.warn(ctx, r.warnings(o, d, failed))
	now := time.Now()
	again = d.WakeAt
	if d.Signer != nil {
		again = onepass.Earliest(again, r.certificate.Load().RenewAt)
	}
	if d.Secret != nil && failed.secret == nil {
		// ConfigMaps are written by what it holds now.
		again = now
	}
	for _, err := range failed.all() {
		pause := retryPause
		if conflicts(err) {
			pause = conflictPause
		}
		again = onepass.Earliest(again, now.Add(pause))
	}
	return again
}

// all are the errors of all writes that failed.
func (f failures) all() []error {
	out := slices.Collect(maps.Values(f.configMaps))
	if f.secret != nil {
		out = append(out, f.secret)
	}
	return out
}

// warnings are all that hold. What conflicted is tried again, and is none.
func (r *Reconciler) warnings(o *observed, d authority.Decision, failed failures) (out []warning) {
	secret := corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: r.Namespace, Name: Name}
	if o.secret != nil {
		secret.UID = o.secret.UID
	}
	if d.Problem != "" {
		out = append(out, warning{secret, ReasonAuthoritiesNotUsable, "the authorities that proxies trust cannot be kept in this Secret: " + d.Problem})
	}
	if err := failed.secret; err != nil && !conflicts(err) {
		out = append(out, warning{secret, ReasonAuthoritiesNotWritten, fmt.Sprintf("the authorities that proxies trust cannot be kept in this Secret: %v", err)})
	}
	if o.noAddress != "" {
		service := corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: r.Namespace, Name: r.Service}
		out = append(out, warning{service, ReasonAddressNotKnown, "proxies cannot be told by this Service where controllers are: " + o.noAddress})
	}
	for name, err := range failed.configMaps {
		for _, set := range o.namespaces[name].sets {
			if !conflicts(err) {
				out = append(out, warning{referenceTo(set), ReasonAuthoritiesNotPublished, fmt.Sprintf("proxies cannot be told which controllers to trust: writing ConfigMap %s: %v", Name, err)})
			}
		}
	}
	return out
}

func referenceTo(set metav1.PartialObjectMetadata) corev1.ObjectReference {
	version, kind := v1alpha1.Kind.ToAPIVersionAndKind()
	return corev1.ObjectReference{APIVersion: version, Kind: kind, Namespace: set.Namespace, Name: set.Name, UID: set.UID}
}

// warn logs each warning, and the leader makes an event of it: once for as long as it lasts. Who begins to
// lead makes events of all.
func (r *Reconciler) warn(ctx context.Context, all []warning) {
	logged, told := map[warning]bool{}, map[warning]bool{}
	for _, w := range all {
		if logged[w] = true; !r.logged[w] {
			log.FromContext(ctx).Error(errors.New(w.message), "proxies may come to trust no controller", "reason", w.reason, "kind", w.about.Kind, "namespace", w.about.Namespace, "name", w.about.Name)
		}
		if !r.leads() {
			continue
		}
		if told[w] = true; !r.told[w] {
			r.recorder.Eventf(&w.about, nil, corev1.EventTypeWarning, w.reason, "Issue", "%s", routing.Note(w.message))
		}
	}
	r.logged, r.told = logged, told
}
