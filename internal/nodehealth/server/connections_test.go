package server

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// counted answers questions about connections and counts them.
type counted struct{ questions atomic.Int32 }

var quietPorts = []v1alpha1.PortConnections{{Port: 80, Open: 3, QuietSeconds: 1.5}, {Port: 443, Unknown: "lost"}}

func (c *counted) connections(context.Context) []v1alpha1.PortConnections {
	c.questions.Add(1)
	return quietPorts
}

func TestConnectionsAreToldToWhoAsks(t *testing.T) {
	var c counted
	r := NewResponder(quiet)
	r.connections = c.connections
	url, _ := start(t, r)
	r.Update(serving())
	for _, path := range []string{"", "/", "/connections", "/?q=connections", "/?connection", "/?%"} {
		if got := ask(t, "GET", url+path).answer.Connections; got != nil || c.questions.Load() != 0 {
			t.Fatalf("%s: connections %v after %d questions about them", path, got, c.questions.Load())
		}
	}
	plain := ask(t, "GET", url)
	for i, path := range []string{"?connections", "/?connections", "/any/path?a=b&connections=yes"} {
		got := ask(t, "GET", url+path)
		if diff := cmp.Diff(quietPorts, got.answer.Connections); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
		if c.questions.Load() != int32(i+1) {
			t.Errorf("%s: %d questions about connections, want %d", path, c.questions.Load(), i+1)
		}
		if got.status != plain.status || got.header.Get("ETag") != plain.header.Get("ETag") || got.answer.Reason != plain.answer.Reason {
			t.Errorf("%s: the verdict is another: %+v", path, got)
		}
	}
	if got := ask(t, "GET", url).answer.Connections; got != nil {
		t.Errorf("connections %v, of which nobody asked", got)
	}
}

func TestQuestionAboutConnectionsDoesNotWait(t *testing.T) {
	var c counted
	r := NewResponder(quiet)
	r.connections = c.connections
	r.Update(serving())
	url, _ := start(t, r)
	got := ask(t, "GET", url+"?connections", "If-None-Match", r.tag, "Prefer", "wait=60")
	if got.took > 15*time.Second || got.answer.Connections == nil {
		t.Errorf("connections %v after %v", got.answer.Connections, got.took)
	}
}

// Where no port is watched the question means nothing.
func TestQuestionAboutConnectionsThatAreNotWatched(t *testing.T) {
	r := NewResponder(quiet)
	r.Update(serving())
	url, _ := start(t, r)
	got := ask(t, "GET", url+"?connections", "If-None-Match", r.tag, "Prefer", "wait=1")
	if got.took < 900*time.Millisecond || got.answer.Connections != nil {
		t.Errorf("connections %v after %v", got.answer.Connections, got.took)
	}
}
