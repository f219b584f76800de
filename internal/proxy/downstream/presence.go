package downstream

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// presence is the context of a connection's requests: it ends when the client has gone. Nobody looks at that before
// somebody asks for Done, and then whoever reads the body finds it, or after that a goroutine that reads on.
type presence struct {
	context.Context
	c    *conn
	once sync.Once
	gone chan struct{}

	mu sync.Mutex
	// serving says whether a handler has a request, asked whether somebody has asked since it had, read whether its body
	// was. Contexts that were made of this one may ask when the handler has returned.
	serving, asked, read bool
	// watched is closed when nobody reads on any more, nil where nobody has begun to.
	watched chan struct{}
}

func newPresence(ctx context.Context, c *conn) *presence {
	return &presence{Context: ctx, c: c, gone: make(chan struct{})}
}

// Done is closed when the client has gone.
func (p *presence) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = true
	p.watch()
	return p.gone
}

// Err is context.Canceled when the client has gone, as far as anybody knows.
func (p *presence) Err() error {
	select {
	case <-p.gone:
		return context.Canceled
	default:
		return nil
	}
}

func (p *presence) end() { p.once.Do(func() { close(p.gone) }) }

// bodyEnded tells that nobody else reads.
func (p *presence) bodyEnded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = true
	p.watch()
}

// watch reads on, where somebody asked and nobody else reads. Where the next request has come, nothing tells of the
// client's end any more.
func (p *presence) watch() {
	if !p.serving || !p.asked || !p.read || p.watched != nil || len(p.c.in.Buffered()) > 0 {
		return
	}
	watched := make(chan struct{})
	p.watched = watched
	p.c.nc.SetReadDeadline(time.Time{})
	go func() {
		defer close(watched)
		if err := p.c.in.Fill(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			p.end()
		}
	}()
}

// begin is that of a request; bodiless says whether it has no body.
func (p *presence) begin(bodiless bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serving, p.asked, p.read = true, false, bodiless
}

// unwatch ends the reading on, and reports whether there was any. The deadline for reading is another then.
func (p *presence) unwatch() bool {
	p.mu.Lock()
	watched := p.watched
	p.serving, p.watched = false, nil
	p.mu.Unlock()
	if watched == nil {
		return false
	}
	p.c.nc.SetReadDeadline(longAgo)
	<-watched
	return true
}
