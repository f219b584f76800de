package issuer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/authority"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience is how long one write may take.
const patience = 10 * time.Second

// failures are the writes that failed.
type failures struct {
	secret error
	// configMaps are by namespace.
	configMaps map[string]error
}

// apply makes the writes of a decision. One that fails keeps no other from being made.
//
// The ConfigMap of a namespace that has no proxies any more stays, as it is. A class may be gone for a moment,
// while it is installed anew: proxies that run meanwhile would lose whom they trust, and pods that start would
// wait for their volume. There is nothing secret in it, and it costs nothing.
func (r *Reconciler) apply(ctx context.Context, o *observed, d authority.Decision) failures {
	failed := failures{configMaps: map[string]error{}}
	if d.Secret != nil {
		failed.secret = unquoted(r.writeSecret(ctx, secretWith(o.secret, r.Namespace, d.Secret)))
	}
	for _, name := range slices.Sorted(maps.Keys(d.ConfigMaps)) {
		if err := r.writeConfigMap(ctx, configMapWith(o.namespaces[name].configMap, name, d.ConfigMaps[name])); err != nil {
			failed.configMaps[name] = err
		}
	}
	return failed
}

// secretWith is the Secret as it is to be, new where there is none.
func secretWith(before *corev1.Secret, namespace string, data map[string][]byte) *corev1.Secret {
	next := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}, Type: authority.SecretType}
	if before != nil {
		next = before.DeepCopy()
	}
	label(next)
	next.Data = data
	return next
}

// configMapWith is a ConfigMap as it is to be, new where there is none. It is of all IngressDaemonSets of its
// namespace, and owned by none: when one went, the garbage collector might take it from the next.
func configMapWith(before *corev1.ConfigMap, namespace string, files map[string]string) *corev1.ConfigMap {
	next := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}}
	if before != nil {
		next = before.DeepCopy()
	}
	label(next)
	next.Data, next.BinaryData = files, nil
	return next
}

// label says on an object who writes it.
func label(o client.Object) {
	labels := map[string]string{}
	maps.Copy(labels, o.GetLabels())
	labels["app.kubernetes.io/managed-by"] = "ingress-daemonset-controller"
	o.SetLabels(labels)
}

// What is immutable is not tried: the API server would refuse it each time, and does not say what helps.
var (
	errSecretImmutable    = errors.New("it is immutable: replace it by one with the same data that is not, because proxies trust no new authority at once")
	errConfigMapImmutable = errors.New("it is immutable: delete it, and it is made anew")
)

func (r *Reconciler) writeSecret(ctx context.Context, s *corev1.Secret) error {
	if s.Immutable != nil && *s.Immutable {
		return errSecretImmutable
	}
	return r.write(ctx, s)
}

func (r *Reconciler) writeConfigMap(ctx context.Context, c *corev1.ConfigMap) error {
	if c.Immutable != nil && *c.Immutable {
		return errConfigMapImmutable
	}
	return r.write(ctx, c)
}

// write writes an object beside the version that was read, or makes it where there was none, unless another
// controller may lead by now.
func (r *Reconciler) write(ctx context.Context, o client.Object) error {
	if !r.leads() {
		return errLeadsNoMore
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if o.GetResourceVersion() == "" {
		return r.writer.Create(ctx, o, client.FieldOwner(FieldManager))
	}
	return r.writer.Update(ctx, o, client.FieldOwner(FieldManager))
}

// unquoted leaves out the text of an answer to a write of keys, because whoever refuses an object may quote it.
func unquoted(err error) error {
	if answer := apierrors.APIStatus(nil); errors.As(err, &answer) && !conflicts(err) {
		return fmt.Errorf("the API server answers %d %s", answer.Status().Code, answer.Status().Reason)
	}
	return err
}

var errLeadsNoMore = errors.New("another controller may lead by now")

// conflicts reports whether somebody else wrote meanwhile, or may have.
func conflicts(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || errors.Is(err, errLeadsNoMore)
}
