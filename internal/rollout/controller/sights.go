package controller

import (
	"sync"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sights remember for each IngressDaemonSet when what stands in its objects was first
// seen, for as long as it is there.
type sights struct {
	mu   sync.Mutex
	sets map[types.NamespacedName]*setSights
}

type setSights struct {
	uid types.UID
	rollout.Sights
}

func newSights() *sights { return &sights{sets: map[types.NamespacedName]*setSights{}} }

// of are those of the IngressDaemonSet, to be used by one pass at a time.
func (s *sights) of(set *v1alpha1.IngressDaemonSet) *rollout.Sights {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(set)
	if known := s.sets[key]; known == nil || known.uid != set.UID {
		s.sets[key] = &setSights{uid: set.UID}
	}
	return &s.sets[key].Sights
}

func (s *sights) forget(set types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sets, set)
}
