package delta

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/stream"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
)

// TestStream: a stream is told what there is, and then each change, and what it answers is reported.
func TestStream(t *testing.T) {
	s := serve(t, ofWeb)
	if position, refused := s.Commit(web, []wire.Resource{backend("a", 1), backend("b", 1)}, nil); position != 1 || refused != nil {
		t.Fatalf("the first commit is at %d, and refused are %v", position, refused)
	}
	c, cancel := s.subscribe(t, nil)
	want := []Report{{Peer: web0, Stream: 1}}
	got := []Report{s.report(t)}
	answer(t, c, hear(t, c, "a=1 b=1"))
	want, got = append(want, Report{web0, 1, stream.Acknowledgement{Position: 1}, false}), append(got, s.report(t))
	s.Commit(web, []wire.Resource{backend("a", 2)}, []string{"backend/b"})
	no := wire.Refusal{Name: "backend/a", Reason: "it is not good"}
	answer(t, c, hear(t, c, "a=2 -backend/b"), no)
	refused := stream.Acknowledgement{Position: 2, Refused: []wire.Refusal{no}}
	want, got = append(want, Report{web0, 1, refused, false}), append(got, s.report(t))
	cancel()
	want, got = append(want, Report{web0, 1, refused, true}), append(got, s.report(t))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestOpened: who has let a proxy in knows it before that proxy leaves the stream that it had.
func TestOpened(t *testing.T) {
	s := serve(t, ofWeb)
	s.Commit(web, nil, nil)
	if _, err := Open(t.Context(), s.dial(t)); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-s.reports:
		if diff := cmp.Diff(Report{Peer: web0, Stream: 1}, got); diff != "" {
			t.Error(diff)
		}
	default:
		t.Error("the stream is open, and nothing of it is reported")
	}
}

// TestMergedWhileUnderWay: what changes before the answer comes in one message.
func TestMergedWhileUnderWay(t *testing.T) {
	s := serve(t, ofWeb)
	s.Commit(web, []wire.Resource{backend("a", 1), backend("b", 1)}, nil)
	c, _ := s.subscribe(t, nil)
	first := hear(t, c, "a=1 b=1")
	s.Commit(web, []wire.Resource{backend("a", 2)}, nil)
	s.Commit(web, []wire.Resource{backend("a", 3)}, []string{"backend/b"})
	answer(t, c, first)
	hear(t, c, "a=3 -backend/b")
}

// TestOtherReplica: who comes from another replica gets differences, also where there is none.
func TestOtherReplica(t *testing.T) {
	one, other := serve(t, ofWeb), serve(t, ofWeb)
	all := []wire.Resource{backend("a", 1), backend("b", 1)}
	one.Commit(web, all, nil)
	c, cancel := one.subscribe(t, nil)
	versions := map[string]string{}
	for _, d := range hear(t, c, "a=1 b=1").Resources {
		versions[d.Name] = d.Version
	}
	cancel()
	other.Commit(web, all[1:], nil)
	other.Commit(web, all[:1], nil)
	c, _ = other.subscribe(t, versions)
	answer(t, c, hear(t, c, ""))
	other.Commit(web, []wire.Resource{backend("c", 1)}, nil)
	hear(t, c, "c=1")
}

// TestClasses: a stream is told of its own IngressDaemonSet only.
func TestClasses(t *testing.T) {
	s := serve(t, ofWeb)
	s.Commit(types.NamespacedName{Namespace: "ingress", Name: "internal"}, []wire.Resource{backend("secret", 1)}, nil)
	s.Commit(web, []wire.Resource{backend("a", 1)}, nil)
	c, _ := s.subscribe(t, nil)
	answer(t, c, hear(t, c, "a=1"))
	s.Commit(types.NamespacedName{Namespace: "ingress", Name: "internal"}, []wire.Resource{backend("secret", 2)}, nil)
	s.Commit(web, []wire.Resource{backend("a", 2)}, nil)
	hear(t, c, "a=2")
}

// TestNotIdentified: who is nobody is told nothing, and not reported.
func TestNotIdentified(t *testing.T) {
	s := serve(t, func(context.Context) (Peer, error) {
		return Peer{}, status.Error(codes.PermissionDenied, "the token is of another audience")
	})
	s.Commit(web, []wire.Resource{backend("a", 1)}, nil)
	if c, err := Open(t.Context(), s.dial(t)); status.Code(err) != codes.PermissionDenied {
		t.Errorf("opened is %v, %v; want PermissionDenied", c, err)
	}
	if len(s.reports) > 0 {
		t.Errorf("reported is %v", <-s.reports)
	}
}

// TestRequestsRefused: a stream of another type is not served, nor is what is no request.
func TestRequestsRefused(t *testing.T) {
	s := serve(t, ofWeb)
	s.Commit(web, nil, nil)
	for name, first := range map[string][]byte{"another type": []byte("\x12\x05other"), "no request": []byte("\x12\xff")} {
		t.Run(name, func(t *testing.T) {
			g, err := s.dial(t).NewStream(t.Context(), &described, "/"+service+"/"+method)
			if err != nil {
				t.Fatal(err)
			}
			if err := g.SendMsg([][]byte{first}); err != nil {
				t.Fatal(err)
			}
			if r, err := (&Client{stream: g}).Receive(); status.Code(err) != codes.InvalidArgument {
				t.Errorf("told is %v, %v; want InvalidArgument", r, err)
			}
		})
	}
	c, _ := s.subscribe(t, nil)
	hear(t, c, "")
	if err := c.stream.SendMsg([][]byte{[]byte("\xff")}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Receive(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("the stream goes on after what is no request: %v", err)
	}
}

// TestHalfClosed: a stream ends in peace where the proxy says that it has nothing more to say.
func TestHalfClosed(t *testing.T) {
	s := serve(t, ofWeb)
	s.Commit(web, nil, nil)
	c, _ := s.subscribe(t, nil)
	hear(t, c, "")
	if err := c.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Receive(); err != io.EOF {
		t.Errorf("the stream ends with %v", err)
	}
}

// TestLarge: a message of many parts and megabytes comes through whole.
func TestLarge(t *testing.T) {
	s := serve(t, ofWeb)
	var all []wire.Resource
	value := strings.Repeat("x", 500<<10)
	for i := range uint16(20) {
		all = append(all, wire.Resource{Name: string(rune('a' + i)), Backend: &wire.Backend{Port: i + 1, Cookie: value}})
	}
	s.Commit(web, all, nil)
	c, _ := s.subscribe(t, nil)
	r, err := c.Receive()
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Resources) != 20 {
		t.Fatalf("%d resources are told, want 20", len(r.Resources))
	}
	for i, d := range r.Resources {
		if got, err := wire.Decode(d.Value); err != nil || cmp.Diff(all[i], got) != "" || wire.Version(d.Value) != d.Version {
			t.Errorf("resource %d is told as %s, %v", i, d.Name, err)
		}
	}
}
