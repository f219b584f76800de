package delta

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// deaf is a stream whose proxy does not read.
type deaf struct {
	played
	over chan struct{}
}

func (d *deaf) SendMsg(any) error {
	<-d.over
	return io.EOF
}

// TestPeerThatDoesNotRead: its stream ends with its pod, and with its token, whatever waits to be sent.
func TestPeerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := web0
		peer.Until = time.Now().Add(time.Hour)
		s := NewServer(Options{Identify: func(context.Context) (Peer, error) { return peer, nil }, Report: func(Report) {}})
		s.Commit(web, nil, nil)
		for name, test := range map[string]struct {
			end  func()
			want time.Duration
		}{
			"its token": {func() {}, time.Hour},
			"its pod":   {func() { s.End(func(Peer) bool { return true }) }, time.Minute},
		} {
			d := &deaf{played{ctx: t.Context(), requests: make(chan []byte, 1)}, make(chan struct{})}
			d.request(wire.Request{TypeURL: wire.TypeURL})
			begun := time.Now()
			peer.Until = begun.Add(time.Hour)
			time.AfterFunc(time.Minute, test.end)
			if err := s.serve(d); status.Code(err) != codes.Unauthenticated || time.Since(begun) != test.want {
				t.Errorf("with %s: after %v: %v", name, time.Since(begun), err)
			}
			close(d.over)
		}
	})
}

// TestUnreadMegabytes: the same over a connection, of which more than fits into it is on its way.
func TestUnreadMegabytes(t *testing.T) {
	s := serve(t, ofWeb)
	var all []wire.Resource
	for i := range uint16(20) {
		all = append(all, wire.Resource{Name: string(rune('a' + i)), Backend: &wire.Backend{Port: 1, Cookie: strings.Repeat("x", 500<<10)}})
	}
	s.Commit(web, all, nil)
	s.subscribe(t, nil)
	s.report(t)
	s.End(func(Peer) bool { return true })
	if r := s.report(t); !r.Ended {
		t.Errorf("reported is %+v", r)
	}
	await.True(t, "nobody has a stream", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.open) == 0
	})
}
