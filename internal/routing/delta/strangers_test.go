package delta

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestConnectionsOfStrangers: who only keeps connections open loses the oldest of them, and keeps neither who has
// a stream nor who opens one from it.
func TestConnectionsOfStrangers(t *testing.T) {
	s := serve(t, ofWeb)
	s.strangers.mu.Lock()
	s.strangers.most = 3
	s.strangers.mu.Unlock()
	s.Commit(web, nil, nil)
	early, _ := s.subscribe(t, nil)
	answer(t, early, hear(t, early, ""))
	var all []net.Conn
	for range 10 {
		c, err := net.Dial("tcp", s.target)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetReadDeadline(time.Now().Add(patience))
		all = append(all, c)
	}
	for i, c := range all[:7] {
		if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("connection %d stays open", i)
		}
	}
	late, _ := s.subscribe(t, nil)
	answer(t, late, hear(t, late, ""))
	s.Commit(web, []wire.Resource{backend("a", 1)}, nil)
	hear(t, early, "a=1")
	hear(t, late, "a=1")
	for _, c := range all {
		c.Close()
	}
	await.True(t, "no stranger is left", func() bool {
		s.strangers.mu.Lock()
		defer s.strangers.mu.Unlock()
		return len(s.strangers.all) == 0
	})
}

// TestStreamsOfAConnection: there are 8 of one connection, and the next when one of them has ended.
func TestStreamsOfAConnection(t *testing.T) {
	s := serve(t, ofWeb)
	s.Commit(web, nil, nil)
	connection := s.dial(t)
	open := func(ctx context.Context) error {
		_, err := Open(ctx, connection)
		return err
	}
	first, end := context.WithCancel(t.Context())
	defer end()
	if err := open(first); err != nil {
		t.Fatal(err)
	}
	for range 7 {
		if err := open(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := open(short); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("one more is opened: %v", err)
	}
	end()
	if err := open(t.Context()); err != nil {
		t.Errorf("in place of one that has ended: %v", err)
	}
}

// TestHeadersOfStrangers: who sends megabytes as a token is not asked about.
func TestHeadersOfStrangers(t *testing.T) {
	s := serve(t, func(context.Context) (Peer, error) {
		t.Error("it is asked about")
		return web0, nil
	})
	s.Commit(web, nil, nil)
	if _, err := Open(withHeader(t, strings.Repeat("a", 1<<20)), s.dial(t)); err == nil {
		t.Error("it is let in")
	}
}

// TestIdentifyingTakesTooLong: who opens a stream is known within ten seconds, or asks again.
func TestIdentifyingTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(Options{Identify: func(ctx context.Context) (Peer, error) {
			<-ctx.Done()
			return Peer{}, status.FromContextError(ctx.Err()).Err()
		}})
		begun := time.Now()
		if err := s.serve(&played{ctx: t.Context()}); status.Code(err) != codes.DeadlineExceeded || time.Since(begun) != 10*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}
