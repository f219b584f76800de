package aws

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
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

// TestWhichRegion is what is given, or else that of the environment, or else the instance's.
func TestWhichRegion(t *testing.T) {
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
			io.WriteString(w, "token")
		case r.URL.Path == "/latest/dynamic/instance-identity/document" && r.Header.Get("X-Aws-Ec2-Metadata-Token") == "token":
			io.WriteString(w, `{"region": "eu-north-1"}`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(metadata.Close)
	static(t)
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	if _, err := New(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "no AWS region: set --aws-region, or AWS_REGION") {
		t.Errorf("without any: %v", err)
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.URL)
	expect := func(given, want string) {
		t.Helper()
		c, err := New(t.Context(), Options{Region: given})
		if err != nil || c.Region() != want {
			t.Errorf("%v %v, want %s", c, err, want)
		}
	}
	expect("", "eu-north-1")
	t.Setenv("AWS_REGION", "eu-west-1")
	expect("", "eu-west-1")
	expect("us-east-1", "us-east-1")
}
