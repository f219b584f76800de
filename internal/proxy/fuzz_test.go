package proxy

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/upstream"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// FuzzTarget: a target that is taken is sent as one that is taken again, and is the same then.
func FuzzTarget(f *testing.F) {
	for _, target := range []string{"/", "/a?b", "*", "http://a/b?c", "http://a?b", "/a b", "/?a b HTTP/1.1", "/%2e%2e/a", "//a", "/?#", "a:80", "://", "/\xff?\xff"} {
		f.Add(target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		path, rest, fine := splitTarget(target)
		if !fine {
			return
		}
		path, err := wire.NormalPath(path)
		if err != nil {
			return
		}
		again, restAgain, fine := splitTarget(path + rest)
		if !fine || again != path || restAgain != rest {
			t.Fatalf("%q is sent as %q, which is read as %q and %q, %t", target, path+rest, again, restAgain, fine)
		}
		q, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + path + rest + " HTTP/1.1\r\nHost: a\r\n\r\n")))
		if err != nil {
			t.Fatalf("%q is sent as %q, which is no request: %v", target, path+rest, err)
		}
		if q.RequestURI != path+rest {
			t.Errorf("%q is sent as %q and read as %q", target, path+rest, q.RequestURI)
		}
	})
}

// FuzzHost: a host that is taken has no byte that could begin something else, and its name no port.
func FuzzHost(f *testing.F) {
	for _, host := range []string{"", "a", "A.example:80", "[::1]:80", "[::1]", "a:b", "a:80:90", ":80", "a b", "a/b", "a@b", "\xff", "]:80"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		name, valid := hostOf(host)
		if !valid {
			return
		}
		if again, valid := hostOf(name); !valid || again != name {
			t.Errorf("%q is %q, which is %q, %t", host, name, again, valid)
		}
		if strings.ContainsAny(host, " \r\n\t\x00/?#@\\,") || strings.ToLower(host[:len(name)]) != name {
			t.Errorf("%q is taken as %q", host, name)
		}
		var h upstream.Head
		h.Start("GET", "/", host, 0)
		if err := h.Err(); err != nil {
			t.Errorf("%q is taken and cannot be sent: %v", host, err)
		}
	})
}

// FuzzForwarded: whatever a trusted peer says, what comes of it is one address.
func FuzzForwarded(f *testing.F) {
	f.Add("192.0.2.1, 10.0.0.1")
	f.Add("unknown,,")
	f.Add("::ffff:10.0.0.1")
	f.Fuzz(func(t *testing.T, chain string) {
		x := &exchange{p: &Proxy{}, client: &clientConn{peerField: []string{"10.0.0.9"}}}
		if got := x.lastUntrusted([]string{chain}); got == "" || strings.ContainsAny(got, ", \t\r\n") {
			t.Errorf("%q is from %q", chain, got)
		}
	})
}
