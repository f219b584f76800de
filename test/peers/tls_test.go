package peers

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// ofTheCertificate are findings about this test's certificate, which signs itself for an hour, and not about how the
// proxy speaks.
var ofTheCertificate = []string{"cert_chain_of_trust", "cert_revocation", "cert_expirationStatus", "cert_notAfter"}

// TestScan: testssl.sh finds nothing MEDIUM or worse in the protocols and ciphers of the proxy, in what it prefers of
// them, and of the vulnerabilities that are known of TLS. It takes minutes, so that make test leaves it to make peers.
func TestScan(t *testing.T) {
	all, p := unpacked(t), proxied(t)
	report := filepath.Join(t.TempDir(), "report.json")
	// Its exit code is how much it found.
	said, _ := all.run(t, 10*time.Minute, "testssl", "--quiet", "--warnings=off", "--color=0", "--nodns=min", "--ip=127.0.0.1",
		"--protocols", "--std", "--server-defaults", "--server-preference", "--vulnerable", "--jsonfile="+report, p.overTLS())
	content, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	var found []struct{ ID, Severity, Finding string }
	if err := json.Unmarshal(content, &found); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	severities := map[string]string{}
	for _, f := range found {
		severities[f.ID] = f.Severity
		switch f.Severity {
		case "OK", "INFO":
		case "WARN", "LOW":
			t.Logf("%s %s: %s", f.Severity, f.ID, f.Finding)
		default:
			if !slices.Contains(ofTheCertificate, f.ID) {
				t.Errorf("%s %s: %s", f.Severity, f.ID, f.Finding)
			}
		}
	}
	// It tells so when it comes to its end, and not where something stops it.
	for _, id := range []string{"SSLv3", "TLS1_3", "cipherlist_NULL", "cipherlist_3DES_IDEA", "heartbleed", "ROBOT", "RC4", "scanTime"} {
		if s := severities[id]; s != "OK" && s != "INFO" {
			t.Errorf("it says %q of %s, and was to look into that:\n%s", s, id, said)
		}
	}
	for _, id := range ofTheCertificate {
		if severities[id] == "" {
			t.Errorf("it does not say %s any more: strike it out", id)
		}
	}
}
