package reviewer

import (
	"context"
	"crypto/sha256"
	"maps"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// reviewsAtOnce bounds what those may ask of the API server who have no token that is good for anything.
	reviewsAtOnce = 10
	// rememberedFor is for how long a token is known that was good. It lasts for ten minutes itself.
	rememberedFor = 15 * time.Minute
)

// slots bound how many tokens are asked about at once. Those that were good before have slots of their own: nobody
// who has no such token keeps them from that.
type slots struct {
	strangers, known chan struct{}

	mu sync.Mutex
	// good are the tokens that were good lately, and until when they are known.
	good map[[sha256.Size]byte]time.Time
}

func newSlots() *slots {
	return &slots{strangers: make(chan struct{}, reviewsAtOnce), known: make(chan struct{}, reviewsAtOnce), good: map[[sha256.Size]byte]time.Time{}}
}

// enter waits for a slot, which leave gives back.
func (s *slots) enter(ctx context.Context, token string) (leave func(), err error) {
	of := s.strangers
	if s.knows(token) {
		of = s.known
	}
	select {
	case of <- struct{}{}:
		return func() { <-of }, nil
	case <-ctx.Done():
		return nil, status.Error(codes.ResourceExhausted, "too many streams are being opened")
	}
}

func (s *slots) knows(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.good[sha256.Sum256([]byte(token))])
}

func (s *slots) remember(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(s.good, func(_ [sha256.Size]byte, until time.Time) bool { return now.After(until) })
	s.good[sha256.Sum256([]byte(token))] = now.Add(rememberedFor)
}
