// Package console shows people what a proxy serves and how it stands, as a page and as JSON: rules, weights,
// endpoints, certificates, what was refused, and which rule serves a request, and why. It changes nothing.
//
// Its files, in the order in which to open them:
//
//   - console.go: Console, what it needs, and who is answered.
//   - view.go: what is shown of one proxy, and how much of it. query.go: what is asked for.
//   - peers.go: the other proxies of the node, whichever of them is asked (package peers).
//   - page.go: the page.
//
// All that is shown comes from others: who writes Ingresses, and whatever answers under the name of a proxy. It is
// escaped, and bounded. A key of a certificate is nowhere near.
package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/peers"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

const (
	// maxRequests are how many there may be at a time.
	maxRequests = 4
	// maxBytes bounds a page, and what a peer may answer.
	maxBytes = 8 << 20
)

// Options are what a Console shows.
type Options struct {
	// Pod is the proxy's, Version that of the program, Began when it was started.
	Pod, Version string
	Began        time.Time
	// Table is what requests are routed by now, State how the proxy stands.
	Table func() *table.Table
	State func() State
	// Endpoints are those of a backend, at most that many, and how many there are.
	Endpoints func(backend string, most int) ([]Endpoint, int)
}

// State is how a proxy stands.
type State struct {
	// Unready is why no requests are to come, empty where they may.
	Unready string
	// Connected says whether a controller tells it what to serve, Since since when it is so or not, and Position how
	// far the controller's log was.
	Connected bool
	Since     time.Time
	Position  string
	// Refused are resources that it cannot use as it was told them last.
	Refused []wire.Refusal
	// Unavailable are ports of the table that are not listened at, and why.
	Unavailable map[uint16]string
}

// Endpoint is one of a backend.
type Endpoint struct {
	wire.Endpoint
	// Out is until when it is left out for its failures, zero where it is not, and Failed how it failed last.
	Out    time.Time
	Failed string
	// Open are connections to it, negative where that is not known, Idle those of them that wait for a request.
	Open, Idle int
}

// Console answers for one proxy, and for all of its node.
type Console struct {
	options Options
	peers   *peers.Peers
	// now is time.Now. Tests have another.
	now func() time.Time
}

// New shows what the options tell.
func New(o Options) *Console {
	return &Console{options: o, peers: peers.New("console", o.Pod, peerPatience), now: time.Now}
}

// Serve answers people until the context ends, or the listener fails.
func (c *Console) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) { answer(w, pageType, c.page(c.everything(r))) })
	mux.HandleFunc("/json", func(w http.ResponseWriter, r *http.Request) { answer(w, jsonType, c.json(c.everything(r))) })
	return peers.Serve(ctx, l, fenced(mux, fromHere))
}

// AnswerPeers answers the other proxies of the node until the context ends.
func (c *Console) AnswerPeers(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/process", func(w http.ResponseWriter, _ *http.Request) { answer(w, jsonType, asJSON(c.process())) })
	mux.HandleFunc("/view", func(w http.ResponseWriter, r *http.Request) {
		answer(w, jsonType, asJSON(c.view(queryOf(r.URL.Query()))))
	})
	return c.peers.Answer(ctx, fenced(mux, func(*http.Request) bool { return true }))
}

// fenced has a handler answer whom it may, a few at a time.
func fenced(h http.Handler, may func(*http.Request) bool) http.Handler {
	places := make(chan struct{}, maxRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the console is only read", http.StatusMethodNotAllowed)
			return
		case !may(r):
			http.Error(w, "the console answers where it is asked for by an address or as localhost", http.StatusForbidden)
			return
		}
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			h.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many ask at once", http.StatusServiceUnavailable)
		}
	})
}

// fromHere reports whether a request is for an address or localhost. A browser is led here under any other name by
// whoever gives that name our address, and would show them what we answer (DNS rebinding).
func fromHere(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	_, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil
}

// protect lets a browser load nothing from elsewhere, run no script but ours, and show it in no frame.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

const (
	pageType = "text/html; charset=utf-8"
	jsonType = "application/json"
)

// answer answers what was written, all or nothing of it.
func answer(w http.ResponseWriter, kind string, write func(*bounded) error) {
	var b bounded
	if err := write(&b); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Write(b.Bytes())
}

func asJSON(v any) func(*bounded) error {
	return func(b *bounded) error {
		e := json.NewEncoder(b)
		e.SetIndent("", "  ")
		// No browser takes it for HTML, and it would be six times as much.
		e.SetEscapeHTML(false)
		return e.Encode(v)
	}
}

// bounded is a buffer of maxBytes.
type bounded struct{ bytes.Buffer }

var errTooMuch = errors.New("it is too much to show: ask for less of it")

// Write fails where it would be more.
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxBytes {
		return 0, errTooMuch
	}
	return b.Buffer.Write(p)
}
