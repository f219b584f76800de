package attaching

import (
	"context"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1/webhook"
	controller "github.com/mumoshu/ingress-daemonset-controller/internal/detach/controller"
)

// receiver is another load balancer, which a webhook speaks for. It keeps the rules of the
// contract: it answers that it is done when it is so, and remembers nothing. What is asked
// at once may be carried out in any order.
type receiver struct {
	w     *world
	nodes map[string]*member
	// fails and slow are what is wrong with it.
	fails bool
	slow  time.Duration
}

// member is the truth about a node there.
type member struct {
	out bool
	// drained is when the last connection ends.
	drained time.Time
}

func (e *receiver) member(node string) *member {
	if e.nodes[node] == nil {
		e.nodes[node] = &member{}
	}
	return e.nodes[node]
}

// ask is what a leader's controller calls.
func (l *leader) ask(ctx context.Context, q webhook.Request) (controller.Answer, error) {
	w := l.w
	l.thawed()
	if err := ctx.Err(); err != nil {
		return controller.Answer{}, err
	}
	if err := l.alive(); err != nil {
		return controller.Answer{}, err
	}
	w.mu.Lock()
	r := w.dice("%s asks about %s", l.name, q.Node.Name)
	there, back := between(r, 5*time.Millisecond, 100*time.Millisecond), between(r, 5*time.Millisecond, 100*time.Millisecond)
	if r.IntN(3) == 0 && w.edge.slow > 0 {
		there += between(r, 0, w.edge.slow)
	}
	fails, drains := w.edge.fails, between(r, time.Second, 10*time.Second)
	w.mu.Unlock()
	if !w.wait(ctx, there) {
		return controller.Answer{}, errLost
	}
	if err := l.alive(); err != nil {
		// Who has gone closed the connection, and what was not begun is dropped.
		return controller.Answer{}, err
	}
	if fails {
		return controller.Answer{}, errRefused
	}
	w.mu.Lock()
	m, detach := w.edge.member(q.Node.Name), q.Action == webhook.Detach
	w.say("the webhook is asked by %s to detach %s: %t", l.name, q.Node.Name, detach)
	if detach && !m.out {
		m.drained = time.Now().Add(drains)
	}
	m.out = detach
	answer := controller.Answer{Done: !detach || !time.Now().Before(m.drained), RetryAfter: 2 * time.Second}
	w.mu.Unlock()
	if !w.wait(ctx, back) {
		return controller.Answer{}, errLost
	}
	return answer, l.alive()
}
