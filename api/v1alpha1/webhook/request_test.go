package webhook

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What receivers in other languages read must not change.
const written = `{"id":"4f9","action":"detach","node":{"name":"n1","providerID":"aws:///eu-west-1a/i-1",` +
	`"addresses":[{"type":"InternalIP","address":"192.0.2.1"}],"labels":{"zone":"a"}},` +
	`"reason":"it is cordoned","since":"2026-01-02T03:04:05Z"}`

var whole = Request{
	ID: "4f9", Action: Detach, Reason: "it is cordoned", Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	Node: Node{
		Name: "n1", ProviderID: "aws:///eu-west-1a/i-1", Labels: map[string]string{"zone": "a"},
		Addresses: []Address{{Type: "InternalIP", Address: "192.0.2.1"}},
	},
}

func TestRequestIsWrittenAsDocumented(t *testing.T) {
	for want, request := range map[string]Request{
		written: whole,
		`{"id":"4f9","action":"attach","node":{"name":"n1"}}`: {ID: "4f9", Action: Attach, Node: Node{Name: "n1"}},
	} {
		got, err := json.Marshal(request)
		if err != nil || string(got) != want {
			t.Errorf("%v\n%s, want\n%s", err, got, want)
		}
		var back Request
		if err := json.Unmarshal(got, &back); err != nil || !cmp.Equal(back, request) {
			t.Errorf("%v\n%s", err, cmp.Diff(request, back))
		}
	}
}

func TestValidate(t *testing.T) {
	with := func(change func(*Request)) Request {
		r := whole
		change(&r)
		return r
	}
	for name, test := range map[string]struct {
		request Request
		want    string
	}{
		"whole":             {whole, ""},
		"longest id":        {with(func(r *Request) { r.ID = strings.Repeat("x", 128) }), ""},
		"no id":             {with(func(r *Request) { r.ID = "" }), "1 to 128"},
		"id too long":       {with(func(r *Request) { r.ID = strings.Repeat("x", 129) }), "1 to 128"},
		"id with a blank":   {with(func(r *Request) { r.ID = "a b" }), "visible ASCII"},
		"id over two lines": {with(func(r *Request) { r.ID = "a\r\nX: b" }), "visible ASCII"},
		"id not of ASCII":   {with(func(r *Request) { r.ID = "ä" }), "visible ASCII"},
		"no action":         {with(func(r *Request) { r.Action = "" }), "must be detach or attach"},
		"another action":    {with(func(r *Request) { r.Action = "drain" }), "must be detach or attach"},
		"no name":           {with(func(r *Request) { r.Node.Name = "" }), "no name"},
	} {
		err := test.request.Validate()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestKeyTellsActionsApart(t *testing.T) {
	detach, attach := whole, whole
	attach.Action = Attach
	again := detach
	again.Reason = "it is still cordoned"
	if detach.IdempotencyKey() != again.IdempotencyKey() || detach.IdempotencyKey() == attach.IdempotencyKey() {
		t.Errorf("%s, again %s, attach %s", detach.IdempotencyKey(), again.IdempotencyKey(), attach.IdempotencyKey())
	}
}
