package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
)

// TestCertificateIsReadAgain shows the certificate that the files hold at the moment.
func TestCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	certificate, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	show := renewable(certificate, key)
	if _, err := show(nil); err == nil {
		t.Error("files that are not there are shown")
	}
	for serial := range int64(2) {
		writePair(t, certificate, key, serial+1)
		shown, err := show(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := shown.Leaf.SerialNumber.Int64(); got != serial+1 {
			t.Errorf("the certificate %d is shown, want %d", got, serial+1)
		}
	}
}

func writePair(t *testing.T, certificate, key string, serial int64) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial)}
	made, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: made}, key: {Type: "PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
