package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1/webhook"
)

// maxBody bounds a request: a Node has at most 256 KiB of labels.
const maxBody = 1 << 20

// receiver answers what the controller asks. It remembers nothing: what was asked
// before is seen in the state of the servers in HAProxy.
type receiver struct {
	proxies []haproxy
	secrets [][]byte
	// turn is held while servers are changed: one question after the other.
	turn sync.Mutex
}

// reply is a status and the message beside it.
type reply struct {
	status  int
	message string
}

func newHandler(r *receiver) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", r.serve)
	return mux
}

func (r *receiver) serve(w http.ResponseWriter, request *http.Request) {
	reply := r.answer(w, request)
	if reply.status == http.StatusAccepted {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(reply.status)
	_, _ = io.WriteString(w, reply.message+"\n")
}

func (r *receiver) answer(w http.ResponseWriter, request *http.Request) reply {
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxBody))
	if err != nil {
		return reply{http.StatusBadRequest, "reading the request: " + err.Error()}
	}
	if err := r.verify(request.Header.Get(webhook.SignatureHeader), body); err != nil {
		return reply{http.StatusUnauthorized, err.Error()}
	}
	var asked webhook.Request
	if err := json.Unmarshal(body, &asked); err != nil {
		return reply{http.StatusBadRequest, "reading the request: " + err.Error()}
	}
	if err := asked.Validate(); err != nil {
		return reply{http.StatusBadRequest, err.Error()}
	}
	answer := r.act(request.Context(), asked)
	slog.Info("asked", "id", asked.ID, "action", asked.Action, "node", asked.Node.Name, "status", answer.status, "message", answer.message)
	return answer
}

// verify accepts what one of the secrets signed.
func (r *receiver) verify(signature string, body []byte) error {
	var refusals []error
	for _, secret := range r.secrets {
		err := webhook.Verify(secret, signature, body, time.Now())
		if err == nil {
			return nil
		}
		refusals = append(refusals, err)
	}
	return errors.Join(refusals...)
}

// act does what is asked in every HAProxy, then tells what is still missing. The
// context ends when nobody waits for the answer any more: the opposite may have been
// asked by then, and no command is given.
func (r *receiver) act(ctx context.Context, asked webhook.Request) reply {
	r.turn.Lock()
	defer r.turn.Unlock()
	found := false
	var missing, failed []string
	for _, proxy := range r.proxies {
		known, reasons, err := proxy.move(ctx, asked.Node, asked.Action)
		found = found || known
		if reasons != "" {
			missing = append(missing, fmt.Sprintf("HAProxy at %s: %s", proxy, reasons))
		}
		if err != nil {
			failed = append(failed, fmt.Sprintf("HAProxy at %s: %v", proxy, err))
		}
	}
	switch {
	case len(failed) > 0:
		return reply{http.StatusServiceUnavailable, strings.Join(failed, "; ")}
	case !found && asked.Action == webhook.Attach:
		return reply{http.StatusNotFound, fmt.Sprintf("no backend has a server %s: add one of this name to HAProxy's configuration", asked.Node.Name)}
	case !found:
		return reply{http.StatusOK, fmt.Sprintf("no backend has a server %s: nothing to stop", asked.Node.Name)}
	case len(missing) > 0:
		return reply{http.StatusAccepted, strings.Join(missing, "; ")}
	}
	return reply{http.StatusOK, ""}
}
