package table

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

func TestPorts(t *testing.T) {
	table := made(t,
		listener("web"), listener("other", func(l *wire.Listener) { l.Hostname = "a.example" }), secure("safe", ""),
		listener("own", func(l *wire.Listener) { l.Address, l.Port = "10.0.0.9", 443 }),
		listener("far", func(l *wire.Listener) { l.Address, l.Port = "::ffff:10.0.0.8", 8080 }),
	)
	if got, want := table.Ports(), []uint16{80, 443, 8080}; !slices.Equal(got, want) {
		t.Errorf("ports are %v, want %v", got, want)
	}
	for _, test := range []struct {
		local      string
		port       uint16
		tls, found bool
	}{
		{"10.0.0.1", 80, false, true},
		{"10.0.0.1", 443, true, true},
		{"10.0.0.9", 443, false, true},
		{"::ffff:10.0.0.9", 443, false, true},
		{"10.0.0.8", 8080, false, true},
		{"10.0.0.1", 8080, false, false},
		{"10.0.0.1", 81, false, false},
	} {
		if tls, found := table.Speaks(netip.MustParseAddr(test.local), test.port); tls != test.tls || found != test.found {
			t.Errorf("%s port %d: TLS %t, found %t, want %t, %t", test.local, test.port, tls, found, test.tls, test.found)
		}
	}
	for port, want := range map[uint16][]string{80: {"other", "web"}, 443: {"own", "safe"}, 81: nil} {
		var got []string
		for _, l := range table.ListenersAt(port) {
			got = append(got, l.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("at port %d are %v, want %v", port, got, want)
		}
	}
	table = applied(t, table, Changes{Removed: []string{"listener/far"}})
	if got, want := table.Ports(), []uint16{80, 443}; !slices.Equal(got, want) {
		t.Errorf("after one has gone ports are %v, want %v", got, want)
	}
}
