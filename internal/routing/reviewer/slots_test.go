package reviewer

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestStrangers: however many open streams with tokens that are good for nothing, the API server is asked about
// ten at once, and a proxy whose token was good before is let in at once. All others wait for their turn.
func TestStrangers(t *testing.T) {
	a := newAPI(t)
	synctest.Test(t, func(t *testing.T) {
		var asking, most atomic.Int64
		slow := interceptor.NewClient(a.Client.(client.WithWatch), interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
				if o.(*authenticationv1.TokenReview).Spec.Token == a.token {
					return c.Create(ctx, o, options...)
				}
				most.Store(max(most.Load(), asking.Add(1)))
				defer asking.Add(-1)
				time.Sleep(time.Second)
				return nil
			},
		})
		r := New(slow, logr.Discard())
		if _, err := r.Identify(with(t, a.token)); err != nil {
			t.Fatal(err)
		}
		said := map[codes.Code]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(with(t, fmt.Sprint("stranger", i)), 10*time.Second+time.Millisecond)
				defer cancel()
				_, err := r.Identify(ctx)
				mu.Lock()
				defer mu.Unlock()
				said[status.Code(err)]++
			})
		}
		synctest.Wait()
		begun := time.Now()
		if _, err := r.Identify(with(t, a.token)); err != nil || time.Since(begun) != 0 {
			t.Errorf("a proxy that is known waits for %v: %v", time.Since(begun), err)
		}
		all.Wait()
		if most.Load() != reviewsAtOnce || said[codes.PermissionDenied] < 100 || said[codes.ResourceExhausted] < 80 {
			t.Errorf("%d are asked about at once, and told is %v", most.Load(), said)
		}
		time.Sleep(rememberedFor)
		if r.slots.knows(a.token) {
			t.Error("a token is remembered that has long expired")
		}
		r.slots.remember("another")
		if len(r.slots.good) != 1 {
			t.Errorf("%d tokens are remembered", len(r.slots.good))
		}
	})
}
