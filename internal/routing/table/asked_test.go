package table

import (
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// TestAsked reads requests as people write them down.
func TestAsked(t *testing.T) {
	for _, test := range []struct {
		asked                Asked
		want, server, header string
		port                 uint16
		fails                string
	}{
		{asked: Asked{Host: "a.example.com", Target: "/"}, want: "GET http://a.example.com/", port: 80},
		{asked: Asked{Host: "A.example.com:8080", Target: "/%7ea?b=c", Method: "POST"}, want: "POST http://a.example.com:8080/~a", port: 8080},
		{asked: Asked{Host: "a.example.com", Target: "/", Scheme: "https"}, want: "GET https://a.example.com/", server: "a.example.com", port: 443},
		{asked: Asked{Host: "[::1]:443", Target: "/", Scheme: "https"}, want: "GET https://[::1]/", port: 443},
		{asked: Asked{Host: "10.0.0.1", Target: "/", Scheme: "https", Local: "10.0.0.1"}, want: "GET https://10.0.0.1/", port: 443},
		{asked: Asked{Host: "a", Target: "/", Headers: []string{"X-V: 1", "x-v:2 "}}, want: "GET http://a/", header: "1,2", port: 80},
		{asked: Asked{Host: "a:", Target: "/"}, want: "GET http://a/", port: 80},
		{asked: Asked{Host: "[::1]:", Target: "/", Scheme: "https"}, want: "GET https://[::1]/", port: 443},
		{asked: Asked{Host: "a", Target: "/", Headers: []string{"Host: a"}}, want: "GET http://a/", port: 80},
		{asked: Asked{Host: "a", Target: "/", Headers: []string{"HOST: b"}}, fails: `header "HOST: b" differs from the host, "a"`},
		{asked: Asked{Host: "a", Target: "/", Method: "GET /"}, fails: `"GET /" is no method`},
		{asked: Asked{Target: "/"}, fails: `"" is no host`},
		{asked: Asked{Host: "a b", Target: "/"}, fails: `"a b" is no host`},
		{asked: Asked{Host: "http://a/", Target: "/"}, fails: `"http://a/" is a URL`},
		{asked: Asked{Host: "a:http", Target: "/"}, fails: `"http" is no port`},
		{asked: Asked{Host: "::1", Target: "/"}, fails: `"::1" is no host`},
		{asked: Asked{Host: "a:0", Target: "/"}, fails: `"0" is no port`},
		{asked: Asked{Host: "a", Target: "b"}, fails: `path "b": it does not begin with /`},
		{asked: Asked{Host: "a", Target: "/../b"}, fails: "above the root"},
		{asked: Asked{Host: "a", Target: "/", Scheme: "ftp"}, fails: `scheme "ftp" is neither http nor https`},
		{asked: Asked{Host: "a", Target: "/", Local: "here"}, fails: `"here", is none`},
		{asked: Asked{Host: "a", Target: "/", Headers: []string{"x"}}, fails: `header "x" is not NAME: VALUE`},
		{asked: Asked{Host: "a", Target: "/", Headers: []string{": x"}}, fails: "is not NAME: VALUE"},
	} {
		r, err := test.asked.Request()
		if test.fails != "" {
			if err == nil || !strings.Contains(err.Error(), test.fails) {
				t.Errorf("%+v: %v, want one about %s", test.asked, err, test.fails)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", test.asked, err)
			continue
		}
		header, _ := r.Header("x-v")
		if r.String() != test.want || r.ServerName != test.server || r.Port != test.port || header != test.header {
			t.Errorf("%+v is %s, %+v", test.asked, r, r)
		}
	}
	r, err := Asked{Host: "a:81", Target: "/?a=1&a=2&b"}.Request()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "1", "b": ""} {
		if value, found := r.Query(name); value != want || !found {
			t.Errorf("parameter %s is %q, %t", name, value, found)
		}
	}
	if value, found := r.Query("c"); found {
		t.Errorf("parameter c is %q", value)
	}
	if host, found := r.Header("host"); host != "a:81" || !found {
		t.Errorf("the host is %q", host)
	}
}

// FuzzAsked: whatever people write is looked up, or is said to be wrong.
func FuzzAsked(f *testing.F) {
	table := made(f, listener(web), secure("tls", ""), route("all"), route("exact", hosts("a.example.com"), exact("/a")))
	for _, seed := range [][3]string{{"a.example.com", "/a?b", "v: 1"}, {"[::1]:80", "/", ""}, {"", "", ":"}, {"a:", "/%", "\n"}, {"::", "//", "a:b"}, {"]", "/..", "\xff"}} {
		f.Add(seed[0], seed[1], seed[2], false)
	}
	f.Fuzz(func(t *testing.T, host, target, header string, secured bool) {
		asked := Asked{Host: host, Target: target, Headers: []string{header}}
		if secured {
			asked.Scheme = "https"
		}
		r, err := asked.Request()
		if err != nil {
			return
		}
		if normal, err := wire.NormalPath(r.Path); err != nil || normal != r.Path {
			t.Errorf("the path of %+v is %q", asked, r.Path)
		}
		if x := table.Explain(r); said(x.Answer) != said(table.Lookup(r)) || x.Why == "" {
			t.Errorf("%+v is explained as %s", asked, x.Why)
		}
	})
}

// TestContents: all that a table is made of is told, but keys.
func TestContents(t *testing.T) {
	table := made(t, listener(web), secure("tls", "a.example.com", "key"), route("r"), certify(t, "key", "a.example.com"))
	var found []string
	for r := range table.Routes() {
		found = append(found, r.Name)
	}
	for l := range table.Listeners() {
		found = append(found, l.Name)
	}
	leaves := map[string]*x509.Certificate{}
	maps.Insert(leaves, table.Certificates())
	slices.Sort(found)
	if !slices.Equal(found, []string{"r", "tls", web}) || len(leaves) != 1 || leaves["key"].DNSNames[0] != "a.example.com" {
		t.Errorf("found are %q and %v", found, leaves)
	}
}
