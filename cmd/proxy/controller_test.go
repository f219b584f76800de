package main

import (
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/selfsigned"
)

// TestConnect: what of the files is not as it should be is said.
func TestConnect(t *testing.T) {
	authority := selfsigned.For(t, delta.ServerName).Chain
	for _, test := range []struct{ authorities, address, fails string }{
		{string(authority), "10.0.0.1:9443", ""},
		{string(authority), "[fd00::1]:9443\n", ""},
		{string(authority) + string(authority), "controller:9443", ""},
		{"none", "10.0.0.1:9443", "reading ca.crt: there is no certificate"},
		{string(authority), "10.0.0.1", `reading address: it must be HOST:PORT, not "10.0.0.1"`},
		{string(authority), "unix:///socket", "reading address"},
		{string(authority), "", "reading address"},
	} {
		p := newPod(t)
		c := controller{p.directory + "/controller", p.directory + "/token"}
		if _, err := c.connect(); err == nil || !strings.Contains(err.Error(), "reading whom to trust: ") {
			t.Errorf("without ca.crt it says %v", err)
		}
		p.write(t, "controller/ca.crt", test.authorities)
		if _, err := c.connect(); err == nil {
			t.Error("without an address it connects")
		}
		p.write(t, "controller/address", test.address)
		connection, err := c.connect()
		if err == nil {
			connection.Close()
		}
		if test.fails == "" && err != nil || test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)) {
			t.Errorf("at %q it says %v, want %q", test.address, err, test.fails)
		}
	}
}
