package aws

import (
	"encoding/pem"
	"io"
	"log"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

// TestCABundle trusts a private endpoint's certificate authority.
func TestCABundle(t *testing.T) {
	s := newServer(t)
	s.on(describeTargetHealth, inventory())
	private := httptest.NewTLSServer(s.Config.Handler)
	t.Cleanup(private.Close)
	private.Config.ErrorLog = log.New(io.Discard, "", 0)
	ask := func() error {
		c, err := New(t.Context(), Options{Region: "eu-west-1", Endpoint: private.URL})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.List(t.Context(), ipGroup, nil)
		return err
	}
	static(t)
	if err := ask(); kind(err) != Unknown {
		t.Fatalf("without the authority: %v", err)
	}
	t.Setenv("AWS_CA_BUNDLE", file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: private.Certificate().Raw}))))
	if err := ask(); err != nil {
		t.Errorf("with the authority: %v", err)
	}
}

// TestUseFromManyGoroutines does everything at once, with credentials that expire in
// between and attributes that are never believed.
func TestUseFromManyGoroutines(t *testing.T) {
	s := newServer(t)
	everything(s)
	s.on(describeTargetHealth, inventory(), refused(403, "ExpiredToken", "expired"), inventory())
	c := client(t, s, Options{AttributesFor: -1})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 5 {
				if _, err := c.Groups(t.Context()); err != nil {
					t.Error(err)
				}
				if _, err := c.List(t.Context(), ipGroup, nil); err != nil && kind(err) != Expired {
					t.Error(err)
				}
				if err := c.Deregister(t.Context(), classicGroup, []targets.Target{at("i-1", 0)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}
