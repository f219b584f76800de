package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/holdings"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/loopback"
	"k8s.io/apimachinery/pkg/types"
)

// TestFromStartToEnd: it is not ready until a controller has told it what to serve, then requests are routed.
// When it is to end it is not ready at once, a request that is under way is answered, so are new ones, by what
// a controller tells meanwhile, and then it ends.
func TestFromStartToEnd(t *testing.T) {
	begun, goOn := make(chan bool, 1), make(chan bool)
	release := sync.OnceFunc(func() { close(goOn) })
	defer release()
	slow := serving(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			begun <- true
			<-goOn
		}
		io.WriteString(w, "hello")
	})
	probed := func(p *pod, code int, said string) {
		t.Helper()
		probe := p.probe(t)
		if got := probe.code(t); got != code || !strings.HasPrefix(probe.log.String(), said) || said == "" && probe.log.String() != "" {
			t.Errorf("the probe ends with %d and %q, want %d and %q", got, probe.log, code, said)
		}
	}
	r, p := newReplica(t, "first"), newPod(t)
	probed(p, 1, "proxy: asking the proxy: ")
	p.leadTo(t, r)
	running := p.start(t, "--max-body-bytes=3")
	await.True(t, "it says that it was told nothing", func() bool { return strings.Contains(p.unready(), "no controller has told it") })
	probed(p, 1, "proxy: not ready: no controller has told it what to serve")
	r.commit(t, all(p.port.Number, slow)...)
	await.True(t, "it is ready", func() bool { return p.unready() == "" })
	probed(p, 0, "")
	if got := p.got("/"); got != "hello" {
		t.Errorf("answered is %q", got)
	}
	// What flags say comes to where it holds.
	response, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d/", p.port.Number), "text/plain", strings.NewReader("four"))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a body that is too large is answered %s", response.Status)
	}

	answered := make(chan string)
	go func() { answered <- p.got("/slow") }()
	<-begun
	running.signal(t, syscall.SIGTERM)
	await.True(t, "it drains", func() bool { return strings.Contains(p.unready(), "it drains") })
	probed(p, 1, "proxy: not ready: it drains")
	r.commit(t, all(p.port.Number, saying(t, "elsewhere"))...)
	if refused := r.acknowledged(t, 2).Refused; len(refused) > 0 {
		t.Errorf("refused is %v", refused)
	}
	if got := p.got("/"); got != "elsewhere" {
		t.Errorf("answered is %q", got)
	}
	release()
	if got := <-answered; got != "hello" {
		t.Errorf("answered is %q", got)
	}
	if got := running.code(t); got != 0 || running.log.with("ended") == 0 {
		t.Errorf("it ends with %d", got)
	}
	if _, err := os.Stat(p.socket()); err == nil {
		t.Error("it leaves its socket behind")
	}
}

// TestAnotherSignal ends it at once, whatever goes on.
func TestAnotherSignal(t *testing.T) {
	begun := make(chan bool, 1)
	never := serving(t, func(_ http.ResponseWriter, r *http.Request) {
		begun <- true
		<-r.Context().Done()
	})
	r, p := newReplica(t, "first"), newPod(t)
	p.leadTo(t, r)
	running := p.start(t, "--drain-idle=1h", "--drain-timeout=2h")
	r.commit(t, all(p.port.Number, never)...)
	await.True(t, "it is ready", func() bool { return p.unready() == "" })
	answered := make(chan string)
	go func() { answered <- p.got("/") }()
	<-begun
	running.signal(t, syscall.SIGTERM)
	await.True(t, "it drains", func() bool { return strings.Contains(p.unready(), "it drains") })
	running.signal(t, syscall.SIGTERM)
	if got := running.code(t); got != 0 {
		t.Errorf("it ends with %d", got)
	}
	<-answered
}

// TestControllerIsLeftFirst: no controller is listened to while the server ends. What it told would seem to be
// refused.
func TestControllerIsLeftFirst(t *testing.T) {
	begun := make(chan bool, 1)
	never := serving(t, func(_ http.ResponseWriter, r *http.Request) {
		begun <- true
		<-r.Context().Done()
	})
	r, p := newReplica(t, "first"), newPod(t)
	p.leadTo(t, r)
	running := p.start(t, "--drain-timeout=0")
	r.commit(t, all(p.port.Number, never)...)
	await.True(t, "it is ready", func() bool { return p.unready() == "" })
	answered := make(chan string, 1)
	go func() { answered <- p.got("/") }()
	<-begun
	running.signal(t, syscall.SIGTERM)
	for late, ended := time.After(patience), false; !ended; {
		select {
		case said := <-r.reports:
			ended = said.Ended
		case <-answered:
			t.Fatal("the request was ended before the stream")
		case <-late:
			t.Fatal("the stream does not end")
		}
	}
	if got := running.code(t); got != 0 {
		t.Errorf("it ends with %d", got)
	}
	<-answered
}

// saves waits for a first snapshot, of so many resources.
func (p *pod) saves(t *testing.T, n int) {
	t.Helper()
	await.True(t, "there is a snapshot", func() bool {
		b, err := os.ReadFile(filepath.Join(p.directory, "snapshot", "snapshot-1"))
		if err != nil {
			return false
		}
		s, err := holdings.DecodeSnapshot(b)
		return err == nil && len(s.Held.Resources) == n
	})
}

// TestKilled: started again where no controller is, it serves what the one before it was told.
func TestKilled(t *testing.T) {
	r, p := newReplica(t, "first"), newPod(t)
	p.leadTo(t, r)
	running := p.start(t)
	told := all(p.port.Number, saying(t, "hello"))
	r.commit(t, told...)
	p.saves(t, len(told))
	r.stop()
	running.signal(t, syscall.SIGKILL)
	running.code(t)
	if _, err := os.Stat(p.socket()); err != nil {
		t.Fatalf("a proxy that is killed leaves its socket behind: %v", err)
	}

	again := p.start(t)
	await.True(t, "it is ready", func() bool { return p.unready() == "" })
	if got := p.got("/"); got != "hello" {
		t.Errorf("answered is %q", got)
	}
	again.saying(t, "the last snapshot")
	again.signal(t, syscall.SIGINT)
	if got := again.code(t); got != 0 {
		t.Errorf("it ends with %d", got)
	}
}

// gatewayAt is a listener of a Gateway at a port, which serves nothing.
func gatewayAt(port uint16) wire.Resource {
	return wire.Resource{Name: "Gateway/shop/other/http", Listener: &wire.Listener{
		Object: wire.Object{Kind: "Gateway", Namespace: "shop", Name: "other"}, Section: "http", Port: port,
	}}
}

// TestPortOfGatewayHeld: a port that somebody else holds and that is only a Gateway's keeps a proxy that begins from
// nothing else. The controller is told whose it is, and again when it is free.
func TestPortOfGatewayHeld(t *testing.T) {
	held := loopback.Held(t)
	r, p := newReplica(t, "first"), newPod(t)
	p.leadTo(t, r)
	p.start(t)
	r.commit(t, append(all(p.port.Number, saying(t, "hello")), gatewayAt(held.Number))...)
	await.True(t, "it is ready", func() bool { return p.unready() == "" })
	if got := p.got("/"); got != "hello" {
		t.Errorf("answered is %q", got)
	}
	want := []wire.Refusal{{Name: "listener/Gateway/shop/other/http", Reason: fmt.Sprintf("PortUnavailable: port %d: address already in use", held.Number)}}
	if got := r.acknowledged(t, 1).Refused; !slices.Equal(got, want) {
		t.Errorf("refused is %v, want %v", got, want)
	}
	held.Free(t)
	if got := r.acknowledged(t, 1).Refused; len(got) > 0 {
		t.Errorf("when it is free, refused is %v", got)
	}
	if got := got(fmt.Sprintf("http://127.0.0.1:%d/", held.Number)); !strings.Contains(got, "404") {
		t.Errorf("there answered is %q", got)
	}
}

// TestPortHeld: a port that somebody else holds is named, also by the probe where it is that of Ingresses, or where there
// is no other, and taken when it is free.
func TestPortHeld(t *testing.T) {
	for kind, more := range map[string]bool{"IngressDaemonSet": true, "Gateway": false} {
		t.Run(kind, func(t *testing.T) {
			told := func(p *pod) []wire.Resource {
				told := all(p.port.Number, saying(t, "hello"))
				told[2].Listener.Object.Kind = kind
				if more {
					told = append(told, gatewayAt(newPod(t).port.Number))
				}
				return told
			}
			portHeld(t, told)
		})
	}
}

func portHeld(t *testing.T, told func(*pod) []wire.Resource) {
	t.Helper()
	r, p := newReplica(t, "first"), newPod(t)
	p.port = loopback.Held(t)
	p.leadTo(t, r)
	running := p.start(t)
	r.commit(t, told(p)...)
	want := fmt.Sprintf("it cannot listen at port %d: address already in use", p.port.Number)
	await.True(t, want, func() bool { return strings.Contains(p.unready(), want) })
	const said = "a port cannot be listened at"
	running.saying(t, said)
	p.port.Free(t)
	await.True(t, "it is ready", func() bool { return p.unready() == "" })
	if got := p.got("/"); got != "hello" {
		t.Errorf("answered is %q", got)
	}
	running.saying(t, "a port is listened at now")
	if n := running.log.with(said); n != 1 {
		t.Errorf("it says %d times that it is held", n)
	}
}

// TestPortOfAnother: pods of one IngressDaemonSet share a port of their node, also one that starts where no controller
// tells it anything any more. A pod of another one waits until the last of them has ended, gets none of its connections,
// and says who has it.
func TestPortOfAnother(t *testing.T) {
	r, first, second := newReplica(t, "first"), newPod(t), newPod(t)
	second.port = first.port
	first.leadTo(t, r)
	second.leadTo(t, r)
	told := all(first.port.Number, saying(t, "hello"))
	r.commit(t, told...)
	sharing := func(p *pod, name string) *process {
		running := p.start(t, "--pod-name="+name)
		await.True(t, name+" shares the port", func() bool { return p.unready() == "" })
		return running
	}
	old, left := sharing(first, "web-0"), sharing(second, "web-1")
	second.saves(t, len(told))
	r.stop()
	left.signal(t, syscall.SIGKILL)
	left.code(t)
	left = sharing(second, "web-1")

	more, newcomer := newReplicaOf(t, "first", types.NamespacedName{Namespace: "ingress", Name: "more"}), newPod(t)
	newcomer.port = first.port
	newcomer.leadTo(t, more)
	more.commit(t, all(first.port.Number, saying(t, "more"))...)
	newcomer.start(t, "--pod-name=more-0")
	refused := func(by string) {
		t.Helper()
		want := []wire.Refusal{{Name: "listener/web", Reason: fmt.Sprintf("PortUnavailable: port %d: pod %s of another IngressDaemonSet listens there", first.port.Number, by)}}
		if got := more.acknowledged(t, 1).Refused; !slices.Equal(got, want) {
			t.Errorf("refused is %v, want %v", got, want)
		}
	}
	refused("web-0")
	old.signal(t, syscall.SIGKILL)
	old.code(t)
	refused("web-1")
	for range 20 {
		if got := second.got("/"); got != "hello" {
			t.Fatalf("answered is %q", got)
		}
	}
	left.signal(t, syscall.SIGTERM)
	await.True(t, "the other one has the port", func() bool { return newcomer.unready() == "" })
	if got := newcomer.got("/"); got != "more" {
		t.Errorf("answered is %q", got)
	}
}

// TestOtherAuthority: who is trusted, where a controller is and what token it is shown is read for each stream.
func TestOtherAuthority(t *testing.T) {
	one, other, p := newReplica(t, "first"), newReplica(t, "second"), newPod(t)
	p.leadTo(t, one)
	p.start(t)
	one.commit(t, all(p.port.Number, saying(t, "one"))...)
	await.True(t, "it is ready", func() bool { return p.unready() == "" })
	other.commit(t, all(p.port.Number, saying(t, "other"))...)

	// The other controller is not believed before its authority is there.
	p.write(t, "controller/address", other.address)
	p.write(t, "token", "second\n")
	one.stop()
	await.True(t, "it comes again", func() bool { return other.connections.Load() > 1 })
	if len(other.reports) > 0 || p.got("/") != "one" {
		t.Error("it believes who has no certificate of an authority")
	}
	p.leadTo(t, other)
	await.True(t, "the other tells it", func() bool { return p.got("/") == "other" })
}
