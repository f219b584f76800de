package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// TestRootsWithoutASystem: where there are no certificate authorities, as in the image, those
// of AWS and of whoever else is asked by HTTPS are trusted all the same.
func TestRootsWithoutASystem(t *testing.T) {
	if os.Getenv("ROOTS") != "" {
		trusts(t)
		return
	}
	nowhere := filepath.Join(t.TempDir(), "none")
	again := exec.Command(os.Args[0], "-test.run=^TestRootsWithoutASystem$", "-test.v")
	again.Env = append(os.Environ(), "ROOTS=1", "SSL_CERT_FILE="+nowhere, "SSL_CERT_DIR="+nowhere)
	if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "Amazon Root CA 1 is trusted") {
		t.Errorf("%v\n%s", err, out)
	}
}

func trusts(t *testing.T) {
	for root := range bundle.Roots() {
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		if certificate.Subject.CommonName != "Amazon Root CA 1" {
			continue
		}
		if _, err := certificate.Verify(x509.VerifyOptions{}); err != nil {
			t.Error(err)
		}
		t.Log("Amazon Root CA 1 is trusted")
	}
}
