package controller

import (
	"sync"

	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"k8s.io/apimachinery/pkg/types"
)

// untold are the steps of each IngressDaemonSet that were carried out since a status was last accepted:
// their events are made when the next one is, so that whoever reads them finds the status that they are of.
type untold struct {
	mu    sync.Mutex
	steps map[types.NamespacedName][]rollout.Step
}

func newUntold() *untold { return &untold{steps: map[types.NamespacedName][]rollout.Step{}} }

// add keeps the steps that are worth an event.
func (u *untold) add(set types.NamespacedName, done []rollout.Step) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range done {
		if reasons[s.Action] != "" {
			u.steps[set] = append(u.steps[set], s)
		}
	}
}

// take are those that were kept, which are forgotten.
func (u *untold) take(set types.NamespacedName) []rollout.Step {
	u.mu.Lock()
	defer u.mu.Unlock()
	steps := u.steps[set]
	delete(u.steps, set)
	return steps
}
