package targets

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1/webhook"
)

// edge is the webhook of another load balancer. It answers that it is done when it
// was asked the same for the second time.
type edge struct {
	server     *httptest.Server
	secretFile string
	secret     []byte

	mu sync.Mutex
	// asked are the IDs that each node was asked about, by action.
	asked map[string][]string
	// refused are requests that were not signed as they should be.
	refused []string
}

func newEdge(dir string) (*edge, error) {
	e := &edge{secretFile: filepath.Join(dir, "secret"), secret: []byte("0123456789abcdef0123456789abcdef"), asked: map[string][]string{}}
	e.server = httptest.NewServer(e)
	return e, os.WriteFile(e.secretFile, append(e.secret, '\n'), 0o600)
}

func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = webhook.Verify(e.secret, r.Header.Get(webhook.SignatureHeader), body, time.Now())
	}
	var request webhook.Request
	if err == nil {
		err = json.Unmarshal(body, &request)
	}
	if err != nil {
		e.refused = append(e.refused, err.Error())
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	key := string(request.Action) + " " + request.Node.Name
	e.asked[key] = append(e.asked[key], request.ID)
	times := 0
	for _, id := range e.asked[key] {
		if id == request.ID {
			times++
		}
	}
	if times < 2 {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusAccepted)
	}
}

// ids are those that a node was asked about.
func (e *edge) ids(action webhook.Action, node string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.asked[string(action)+" "+node]...)
}

func (e *edge) refusals() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.refused...)
}
