package delta

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// played is a stream in a bubble of virtual time, whose proxy answers at once.
type played struct {
	grpc.ServerStream
	ctx      context.Context
	requests chan []byte
	begun    time.Time
	// told is what was said, and when.
	told []string
}

func (p *played) Context() context.Context { return p.ctx }

func (p *played) SendHeader(metadata.MD) error { return nil }

func (p *played) RecvMsg(to any) error {
	select {
	case b := <-p.requests:
		*to.(*[]byte) = b
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

func (p *played) SendMsg(parts any) error {
	r, err := wire.DecodeResponse(bytes.Join(parts.([][]byte), nil))
	if err != nil {
		return err
	}
	p.told = append(p.told, time.Since(p.begun).String()+" "+said(r))
	p.request(wire.Request{Nonce: r.Nonce})
	return nil
}

func (p *played) request(r wire.Request) {
	b, err := r.Encode()
	if err != nil {
		panic(err)
	}
	p.requests <- b
}

// TestBurst: the first change after a silence waits for nothing, those that come soon after it are told
// together, 10 ms after it.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := &played{ctx: ctx, requests: make(chan []byte, 10), begun: time.Now()}
		s := NewServer(Options{Identify: ofWeb, Report: func(Report) {}})
		s.Commit(web, nil, nil)
		p.request(wire.Request{TypeURL: wire.TypeURL})
		ended := make(chan error)
		go func() { ended <- s.serve(p) }()
		for i, at := range []int{100, 102, 104, 106, 109, 111, 200, 230} {
			time.Sleep(time.Duration(at)*time.Millisecond - time.Since(p.begun))
			s.Commit(web, []wire.Resource{backend("a", uint16(i+1))}, nil)
		}
		time.Sleep(time.Second)
		cancel()
		<-ended
		want := []string{"0s ", "100ms a=1", "110ms a=5", "120ms a=6", "200ms a=7", "230ms a=8"}
		if diff := cmp.Diff(want, p.told); diff != "" {
			t.Error(diff)
		}
	})
}
