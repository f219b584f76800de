package controller

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mutationCache keeps the objects that the controller wrote until the cache has
// caught up with them, so that it sees its own writes at once.
type mutationCache struct {
	now     func() time.Time
	mu      sync.Mutex
	objects map[identity]own
	// deleted are the pods that were deleted at once.
	deleted map[types.UID]deletion
	// stamped says for what each Deployment was last stamped.
	stamped map[types.UID]stamp
	// replaced says of what pods were there when each Deployment was last updated.
	replaced map[types.UID]replacement
}

// setID is one IngressDaemonSet, and none that had its name before or gets it later.
type setID struct {
	key types.NamespacedName
	uid types.UID
}

type identity struct {
	kind reflect.Type
	key  types.NamespacedName
}

type own struct {
	client.Object
	at time.Time
}

// deletion is on which node a pod of an IngressDaemonSet was deleted, and when.
type deletion struct {
	of   setID
	node string
	at   time.Time
}

// stamp is a version of an IngressDaemonSet.
type stamp struct {
	of      setID
	version string
}

// replacement has the hashes of ReplicaSets of an IngressDaemonSet.
type replacement struct {
	of     setID
	hashes []string
}

// longestLag is when a cache that has not seen an object will not see it any
// more: it was deleted while the watch was broken.
const longestLag = time.Minute

func newMutationCache(now func() time.Time) *mutationCache {
	return &mutationCache{
		now: now, objects: map[identity]own{}, deleted: map[types.UID]deletion{},
		stamped: map[types.UID]stamp{}, replaced: map[types.UID]replacement{},
	}
}

// remember keeps an object as the API server returned it and the cache will hold it.
func (m *mutationCache) remember(obj client.Object) {
	_, _ = transformDeployment(obj) // which never fails
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[identityOf(obj)] = own{obj, m.now()}
}

// gone drops an object that was deleted, and not another that got its name since.
func (m *mutationCache) gone(obj client.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mine, ok := m.objects[identityOf(obj)]; ok && mine.GetUID() == obj.GetUID() {
		delete(m.objects, identityOf(obj))
	}
	delete(m.deleted, obj.GetUID())
	delete(m.stamped, obj.GetUID())
	delete(m.replaced, obj.GetUID())
}

// forget drops what was written for the IngressDaemonSets of a name, but for the one of that UID. An
// object that no cache ever showed goes without an event, and a note may be made after it has gone.
func (m *mutationCache) forget(key types.NamespacedName, but types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	goes := func(of setID) bool { return of.key == key && of.uid != but }
	maps.DeleteFunc(m.objects, func(_ identity, mine own) bool { return goes(setOwning(mine.Object)) })
	maps.DeleteFunc(m.deleted, func(_ types.UID, d deletion) bool { return goes(d.of) })
	maps.DeleteFunc(m.stamped, func(_ types.UID, s stamp) bool { return goes(s.of) })
	maps.DeleteFunc(m.replaced, func(_ types.UID, r replacement) bool { return goes(r.of) })
}

// replace remembers of which ReplicaSets the pods are that an update of a Deployment is to replace.
func (m *mutationCache) replace(set *v1alpha1.IngressDaemonSet, deployment types.UID, pods []*corev1.Pod) {
	var hashes []string
	for _, pod := range pods {
		if hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; !slices.Contains(hashes, hash) {
			hashes = append(hashes, hash)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replaced[deployment] = replacement{idOf(set), hashes}
}

// mayBeOlder reports whether a pod may have been there before the last update of a Deployment, as far
// as is known.
func (m *mutationCache) mayBeOlder(deployment types.UID, pod *corev1.Pod) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, known := m.replaced[deployment]
	return !known || slices.Contains(before.hashes, pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey])
}

// stamp remembers for which version of the IngressDaemonSet a Deployment was stamped.
func (m *mutationCache) stamp(set *v1alpha1.IngressDaemonSet, deployment types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stamped[deployment] = stamp{idOf(set), set.ResourceVersion}
}

// isStamped reports whether a Deployment was stamped for this version of the IngressDaemonSet: again
// would refuse nobody more.
func (m *mutationCache) isStamped(set *v1alpha1.IngressDaemonSet, deployment types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stamped[deployment] == stamp{idOf(set), set.ResourceVersion}
}

// bury has a pod that was deleted at once be seen no more, though the cache still holds it.
func (m *mutationCache) bury(set *v1alpha1.IngressDaemonSet, pod *corev1.Pod, node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deleted[pod.UID] = deletion{idOf(set), node, m.now()}
}

// buried reports whether a pod was.
func (m *mutationCache) buried(pod *corev1.Pod) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, deleted := m.deleted[pod.UID]
	return deleted
}

// latest is the newer of the cached object and the one that was written, which is dropped
// where the cache has caught up.
func latest[T client.Object](m *mutationCache, cached T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := identityOf(cached)
	mine, ok := m.objects[key].Object.(T)
	if !ok {
		return cached
	}
	if !newer(mine, cached) {
		delete(m.objects, key)
		return cached
	}
	return mine
}

// since is the newer of an object that was observed and the one that was written. What was
// observed may be what was written, and not in the cache yet.
func since[T client.Object](m *mutationCache, observed T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mine, ok := m.objects[identityOf(observed)].Object.(T); ok && newer(mine, observed) {
		return mine
	}
	return observed
}

// newer reports whether a is a later version of the object that b is.
func newer(a, b client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0 && a.GetUID() == b.GetUID()
}

// unseen are the written objects of a type that belong to the owner and that were
// not seen in the cache.
func unseen[T client.Object](m *mutationCache, owner types.UID, seen func(T) bool) []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []T
	for key, obj := range m.objects {
		mine, ok := obj.Object.(T)
		switch {
		case !ok || !controlledBy(mine, owner) || seen(mine):
		case m.now().Sub(obj.at) > longestLag:
			delete(m.objects, key)
		default:
			out = append(out, mine)
		}
	}
	return out
}

// nodes adds the nodes of which something was written that the cache may not hold yet.
func (m *mutationCache) nodes(set *v1alpha1.IngressDaemonSet, to map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, obj := range m.objects {
		switch obj := obj.Object.(type) {
		case *corev1.Node:
			to[obj.Name] = true
		case *appsv1.Deployment:
			if controlledBy(obj, set.UID) {
				to[nodeOf(obj)] = true
			}
		}
	}
	// The event of a deletion may come before it is noted, and then no other tells of it.
	maps.DeleteFunc(m.deleted, func(_ types.UID, d deletion) bool { return m.now().Sub(d.at) > longestLag })
	for _, pod := range m.deleted {
		to[pod.node] = true
	}
}

func identityOf(obj client.Object) identity {
	return identity{reflect.TypeOf(obj), client.ObjectKeyFromObject(obj)}
}

func idOf(set *v1alpha1.IngressDaemonSet) setID {
	return setID{client.ObjectKeyFromObject(set), set.UID}
}

// setOwning is the IngressDaemonSet that an object belongs to, or is; zero where there is none.
func setOwning(obj client.Object) setID {
	if set, ok := obj.(*v1alpha1.IngressDaemonSet); ok {
		return idOf(set)
	}
	owner := metav1.GetControllerOfNoCopy(obj)
	if owner == nil || owner.Kind != v1alpha1.Kind.Kind {
		return setID{}
	}
	return setID{types.NamespacedName{Namespace: obj.GetNamespace(), Name: owner.Name}, owner.UID}
}

// catchUp drops what was written to objects of a kind where the cache holds it, or what
// became of it since: somebody may have taken from an object by which it is found. It
// comes before the cache is read, so that what is dropped is read.
func (r *Reconciler) catchUp(ctx context.Context, o *observed, kind client.Object) error {
	held, err := r.index(ctx, kind)
	if err != nil {
		return err
	}
	r.mutations.mu.Lock()
	defer r.mutations.mu.Unlock()
	for key, mine := range r.mutations.objects {
		if key.kind != reflect.TypeOf(kind) || !controlledBy(mine, o.set.UID) {
			continue
		}
		if cached, found, err := held.Get(mine.Object); err == nil && found && !newer(mine, cached.(client.Object)) {
			delete(r.mutations.objects, key)
		}
	}
	return nil
}
