package controller

import (
	"context"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/gatewayapi"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// spoilt is an API server of which what is read is changed.
type spoilt struct {
	client.Reader
	change func(*unstructured.Unstructured) error
}

func (s *spoilt) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := s.Reader.Get(ctx, key, o, opts...)
	if raw, is := o.(*unstructured.Unstructured); err == nil && is && s.change != nil {
		err = s.change(raw)
	}
	return err
}

// spoiling gives a cluster the Gateway API by way of a spoilt API server, of which all is known.
func (c *cluster) spoiling(t *testing.T) *spoilt {
	t.Helper()
	kinds, s := &installed{}, &spoilt{Reader: c.API}
	kinds.set(gatewayapi.Names...)
	c.GatewayAPI = gatewayapi.New(s, &informertest.FakeInformers{Scheme: c.Scheme()}, kinds.served)
	c.sync(t)
	return s
}

// TestMalformed: of an object that cannot be read what was made of it before stays, an event says so, and all others
// are read and told, also by a controller that begins.
func TestMalformed(t *testing.T) {
	other := routeTo("entry", "cheese")
	other.Name = "other"
	c := newCluster(t, true, gatewayClass(), gatewayOf("entry"), routeTo("entry", "cheese"), other)
	s, p := c.spoiling(t), c.proxy(t)
	all := []client.Object{gatewayClass(), gatewayOf("entry"), routeTo("entry", "cheese")}
	c.pass(t, all...)
	if got := p.hear(t); !strings.Contains(got, "HTTPRoute/shop/cheese/0") {
		t.Fatalf("told is %s", got)
	}
	s.change = func(raw *unstructured.Unstructured) error {
		if raw.GetName() == "cheese" && raw.GetKind() == "HTTPRoute" {
			return unstructured.SetNestedField(raw.Object, "a.example", "spec", "hostnames")
		}
		return nil
	}
	c.said()
	writes := len(c.Writes())
	c.pass(t, all[2], other)
	if got := p.hear(t); !strings.Contains(got, "HTTPRoute/shop/other/0") || strings.Contains(got, "cheese/0") {
		t.Errorf("while one cannot be read, told is %s", got)
	}
	if got := strings.Join(c.said(), "; "); !strings.Contains(got, "Warning Malformed it is no HTTPRoute") || !strings.Contains(got, "stays") {
		t.Errorf("said is %q", got)
	}
	if got := strings.Join(c.Writes()[writes:], ", "); got != "update HTTPRoute/status other" && got != "update HTTPRoute/status other, update Gateway/status entry" && got != "update Gateway/status entry, update HTTPRoute/status other" {
		t.Errorf("written is %s", got)
	}
	began := replicaOf(t, c.API, true)
	began.GatewayAPI = c.GatewayAPI
	began.pass(t, append(all, other)...)
	if got := strings.Join(began.said(), "; "); !began.complete || !strings.Contains(got, "nothing is made of it") {
		t.Errorf("a controller that begins is complete: %t, and says %q", began.complete, got)
	}
	s.change = nil
	c.pass(t, all[2])
	if len(c.malformed) != 0 || len(c.told) != 0 {
		t.Errorf("when it can be read again, %v lasts", c.told)
	}
}

// TestForeignEntries: what another controller says of a route is written back as it is, also what this version of the
// API does not know, and what it cannot read.
func TestForeignEntries(t *testing.T) {
	c := newCluster(t, true, gatewayClass(), gatewayOf("entry"), routeTo("entry", "cheese"))
	s := c.spoiling(t)
	theirs := map[string]any{
		"controllerName": "example.com/another", "parentRef": map[string]any{"name": "of-another"}, "newer": "field",
		"conditions": []any{map[string]any{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-11-30t01:02:03z"}},
	}
	s.change = func(raw *unstructured.Unstructured) error {
		if raw.GetKind() != "HTTPRoute" {
			return nil
		}
		return unstructured.SetNestedSlice(raw.Object, []any{theirs}, "status", "parents")
	}
	var written []any
	c.statuses.client = writesOf{c.API, func(o client.Object) {
		if raw, is := o.(*unstructured.Unstructured); is {
			written, _, _ = unstructured.NestedSlice(raw.Object, "status", "parents")
		}
	}}
	c.pass(t, gatewayClass(), gatewayOf("entry"), routeTo("entry", "cheese"))
	if len(written) != 2 || written[0].(map[string]any)["newer"] != "field" || written[1].(map[string]any)["controllerName"] == theirs["controllerName"] {
		t.Errorf("written is %v", written)
	}
}

// writesOf notes which statuses are written, and writes none.
type writesOf struct {
	client.Client
	note func(client.Object)
}

func (w writesOf) Status() client.SubResourceWriter { return notedStatus{w.Client.Status(), w} }

type notedStatus struct {
	client.SubResourceWriter
	writesOf
}

func (n notedStatus) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	n.note(o)
	return nil
}
