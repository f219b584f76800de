package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/selfsigned"
)

// blinding starts a checker that is called blind half a second after it cannot see.
func blinding(t *testing.T, api *fakeAPI, config *rest.Config) *watching {
	t.Helper()
	api.set("deployments", apiDeployment(nil))
	api.set("pods", apiPod(true, true, nil))
	w := newWatching(t, config, t.TempDir())
	w.link.blindAfter = gapPatience + 500*time.Millisecond
	w.start(t)
	w.becomes(t, nodehealth.Serving)
	await.True(t, "it sees", func() bool { return w.last.Load().LostAt.IsZero() })
	return w
}

func (w *watching) isBlind() string { return nodehealth.Decide(*w.last.Load()).Blind }

// TestRightThatIsRefusedIsTold plays a role that somebody took away, until it is back.
func TestRightThatIsRefusedIsTold(t *testing.T) {
	for name, old := range map[string]bool{"with streamed lists": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := newFakeAPI(t)
			api.old = old
			w := blinding(t, api, api.config())
			api.forbids.Store(true)
			api.leave()
			api.come()
			await.True(t, "it says why it is blind", func() bool { return strings.Contains(w.isBlind(), "it is Forbidden") })
			api.forbids.Store(false)
			api.set("deployments", apiDeployment(map[string]string{v1alpha1.DefaultMarkKey: "m"}))
			w.becomes(t, nodehealth.Marked)
			await.True(t, "it sees again", func() bool { return w.isBlind() == "" })
		})
	}
}

// TestCAIsReadAgain plays an API server with a certificate of another CA, before and
// after the file of the CA is replaced.
func TestCAIsReadAgain(t *testing.T) {
	t.Parallel()
	api := newFakeAPI(t)
	api.leave()
	file := filepath.Join(t.TempDir(), "ca.crt")
	changeCA := func(publish bool) (publishLater func()) {
		own := selfsigned.For(t, "127.0.0.1")
		ca := own.Chain
		api.identity = &own.Certificate
		publishLater = func() {
			if err := os.WriteFile(file, ca, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if publish {
			publishLater()
		}
		api.come()
		return publishLater
	}
	changeCA(true)
	w := blinding(t, api, &rest.Config{Host: "https://" + api.address, TLSClientConfig: rest.TLSClientConfig{CAFile: file}})
	api.leave()
	publish := changeCA(false)
	await.True(t, "it says why it is blind", func() bool { return strings.Contains(w.isBlind(), "certificate") })
	// What is being written says nothing yet.
	if err := os.WriteFile(file, []byte("-----BEGIN"), 0o600); err != nil {
		t.Fatal(err)
	}
	publish()
	await.True(t, "it sees again", func() bool { return w.isBlind() == "" && w.last.Load().LostAt.IsZero() })
}
