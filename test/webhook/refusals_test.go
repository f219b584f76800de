package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	contract "github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1/webhook"
	"github.com/mumoshu/ingress-daemonset-controller/internal/detach/webhook"
	"github.com/mumoshu/ingress-daemonset-controller/test/lb"
)

// TestUnknownNodes has nothing to stop and nothing to start, but for a server whose
// name is wrong.
func TestUnknownNodes(t *testing.T) {
	t.Parallel()
	n := startNode(t, "one", nil, nil)
	b := startBalancer(t, n)
	p := startReceiver(t, b.socket)
	unknown := webhook.Node{Name: "three", Addresses: []webhook.Address{{Type: "InternalIP", Address: "192.0.2.3"}}}
	if answer := p.ask(webhook.Detach, unknown); !answer.Done || answer.Message != "no backend has a server three: nothing to stop" {
		t.Errorf("%+v", answer)
	}
	if answer, err := p.tryAsk(webhook.Attach, unknown); err == nil || !strings.Contains(err.Error(), "404 Not Found: no backend has a server three: add one") {
		t.Errorf("%+v, %v", answer, err)
	}
	misnamed := n.asked()
	misnamed.Name = "three"
	want := fmt.Sprintf("/one has address %s of node three: give it the node's name", misnamed.Addresses[0].Address)
	for _, action := range []webhook.Action{webhook.Detach, webhook.Attach} {
		if answer, err := p.tryAsk(action, misnamed); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", action, answer, err)
		}
	}
	if !b.is(t, "one", lb.Up) {
		t.Error("another node was touched")
	}
}

// TestMaintenanceIsLeftAlone, since a person set it.
func TestMaintenanceIsLeftAlone(t *testing.T) {
	t.Parallel()
	n := startNode(t, "one", nil, nil)
	b := startBalancer(t, n)
	p := startReceiver(t, b.socket)
	if err := b.Disable("one"); err != nil {
		t.Fatal(err)
	}
	if answer := p.ask(webhook.Detach, n.asked()); !answer.Done {
		t.Errorf("%+v", answer)
	}
	if answer := p.ask(webhook.Attach, n.asked()); answer.Done || !strings.Contains(answer.Message, "http/one is in maintenance") || !strings.Contains(answer.Message, "tcp/one is in maintenance") {
		t.Errorf("%+v", answer)
	}
	if !b.is(t, "one", lb.Maint) {
		t.Error("the maintenance was ended")
	}
	if err := b.Enable("one"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node is attached", func() bool { return p.ask(webhook.Attach, n.asked()).Done })
}

// TestOnlyTheControllerIsBelieved sends what nobody with the secret would.
func TestOnlyTheControllerIsBelieved(t *testing.T) {
	t.Parallel()
	n := startNode(t, "one", nil, nil)
	b := startBalancer(t, n)
	p := startReceiver(t, b.socket)
	body, err := json.Marshal(webhook.Request{ID: "test", Action: webhook.Detach, Node: n.asked()})
	if err != nil {
		t.Fatal(err)
	}
	signed := func(body []byte, ago time.Duration) string {
		return contract.Sign(p.secret, body, time.Now().Add(-ago))
	}
	_, other := newSecret(t, "b")
	nameless, large := []byte(`{"id":"test","action":"detach"}`), bytes.Repeat([]byte{' '}, 1<<20+1)
	for _, test := range []struct {
		name, method, signature string
		body                    []byte
		status                  int
		says                    string
	}{
		{"unsigned", "POST", "", body, 401, "KEY=VALUE"},
		{"another secret", "POST", contract.Sign(other, body, time.Now()), body, 401, "not of this body"},
		{"another body", "POST", signed(nameless, 0), body, 401, "not of this body"},
		{"replayed", "POST", signed(body, 6*time.Minute), body, 401, "more than 5m0s away"},
		{"a clock ahead", "POST", signed(body, -6*time.Minute), body, 401, "more than 5m0s away"},
		{"no JSON", "POST", signed(body[1:], 0), body[1:], 400, "reading the request"},
		{"no node", "POST", signed(nameless, 0), nameless, 400, "no name"},
		{"too large", "POST", signed(large, 0), large, 400, "too large"},
		{"another method", "GET", signed(body, 0), body, 405, ""},
	} {
		status, answer := post(t, p, test.method, test.signature, test.body)
		if status != test.status || !strings.Contains(answer, test.says) {
			t.Errorf("%s: %d %s, want %d with %q", test.name, status, answer, test.status, test.says)
		}
	}
	if !b.is(t, "one", lb.Up) {
		t.Error("one of them was believed")
	}
	if status, answer := post(t, p, "POST", signed(body, 4*time.Minute), body); status != 200 {
		t.Errorf("the control: %d %s", status, answer)
	}
}

func post(t *testing.T, p *process, method, signature string, body []byte) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.listen+"/any/path", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(contract.SignatureHeader, signature)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// TestSecretIsChangedWithoutAGap has the receiver accept the old and the new one.
func TestSecretIsChangedWithoutAGap(t *testing.T) {
	t.Parallel()
	n := startNode(t, "one", nil, nil)
	p := startReceiver(t, startBalancer(t, n).socket)
	file, second := newSecret(t, "b")
	p.kill()
	p.args = append(p.args, "-secret-file", file)
	p.start()
	for _, secret := range [][]byte{p.secret, second} {
		p.secret = secret
		eventually(t, "the node is detached", func() bool { return p.ask(webhook.Detach, n.asked()).Done })
	}
}

// TestNothingIsDoneForWhoDoesNotWait keeps a question that was given up, while the one
// before it was being answered, from undoing what was asked since.
func TestNothingIsDoneForWhoDoesNotWait(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "hangs")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	var commands atomic.Int64
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			// One that nobody refers to is closed by the garbage collector.
			defer conn.Close()
			commands.Add(1)
		}
	}()
	p := startReceiver(t, socket)
	ask := func(timeout time.Duration) error {
		_, err := p.client(timeout).Ask(t.Context(), webhook.Request{ID: "test", Action: webhook.Detach, Node: webhook.Node{Name: "one"}})
		return err
	}
	first := make(chan error, 1)
	go func() { first <- ask(patient) }()
	eventually(t, "the first question is being answered", func() bool { return commands.Load() == 1 })
	if err := ask(100 * time.Millisecond); err == nil {
		t.Error("the second question was answered")
	}
	for _, err := range []error{<-first, ask(patient)} {
		if err == nil || !strings.Contains(err.Error(), "503 Service Unavailable: HAProxy at "+socket) {
			t.Error(err)
		}
	}
	if n := commands.Load(); n != 2 {
		t.Errorf("%d commands were given, want 2: none for the second question", n)
	}
}
