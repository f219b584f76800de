package peers

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// patience is how long a peer may take, on a machine that is busy with other tests.
const patience = 2 * time.Minute

// TestH2load: h2load gets an answer to each of its requests over HTTP/2, with TLS and without, a hundred at a time on
// each connection, and over HTTP/1.1.
func TestH2load(t *testing.T) {
	all, p := unpacked(t), proxied(t)
	for name, arguments := range map[string][]string{
		"HTTP/2 with TLS":    {"-m100", p.overTLS()},
		"HTTP/2 without":     {"-m100", p.withoutTLS()},
		"HTTP/1.1 with TLS":  {"--h1", p.overTLS()},
		"HTTP/1.1 without":   {"--h1", p.withoutTLS()},
		"HTTP/2 with bodies": {"-m20", "--data=" + sized(t, 100<<10), p.overTLS()},
	} {
		t.Run(name, func(t *testing.T) {
			const requests = 3000
			said, err := all.run(t, patience, "h2load", append([]string{fmt.Sprintf("-n%d", requests), "-c10"}, arguments...)...)
			want := fmt.Sprintf("requests: %d total, %[1]d started, %[1]d done, %[1]d succeeded, 0 failed, 0 errored, 0 timeout\nstatus codes: %[1]d 2xx", requests)
			if err != nil || !strings.Contains(said, want) {
				t.Errorf("%v: want %q in\n%s", err, want, said)
			}
		})
	}
}

// complete finds in what wrk says how many requests it sent.
var complete = regexp.MustCompile(`(\d+) requests in `)

// TestWrk: for as long as wrk sends requests one after the other on some connections, each is answered. It tells of
// errors only where there are some.
func TestWrk(t *testing.T) {
	all, p := unpacked(t), proxied(t)
	for _, url := range []string{p.overTLS(), p.withoutTLS()} {
		said, err := all.run(t, patience, "wrk", "--threads=2", "--connections=50", "--duration=2s", "--timeout=30s", url)
		sent := complete.FindStringSubmatch(said)
		if err != nil || len(sent) == 0 || len(sent[1]) < 4 || strings.Contains(said, "Non-2xx") || strings.Contains(said, "Socket errors") {
			t.Errorf("%v: want some thousand requests and no errors in\n%s", err, said)
		}
	}
}

// TestCurl: curl gets what it asks for by each protocol that it and the proxy speak, sends a body that it first asks
// for (Expect: 100-continue), and finds nothing wrong with any.
func TestCurl(t *testing.T) {
	all, p := unpacked(t), proxied(t)
	body := "@" + sized(t, 3<<20)
	for _, test := range []struct {
		arguments []string
		want      string
	}{
		// The answer has the version that the proxy speaks (RFC 9110, 6.2).
		{[]string{"--http1.0", p.withoutTLS()}, "1.1 200 6"},
		{[]string{"--http1.1", p.withoutTLS()}, "1.1 200 6"},
		{[]string{"--http2-prior-knowledge", p.withoutTLS()}, "2 200 6"},
		// It offers Upgrade: h2c, which is not taken.
		{[]string{"--http2", p.withoutTLS()}, "1.1 200 6"},
		{[]string{"--http1.1", p.overTLS()}, "1.1 200 6"},
		{[]string{"--http2", p.overTLS()}, "2 200 6"},
		{[]string{"--http2", "--tls-max", "1.2", p.overTLS()}, "2 200 6"},
		{[]string{"--http2", "--head", p.overTLS()}, "2 200 0"},
		{[]string{"--http1.1", "--header", "Expect: 100-continue", "--data-binary", body, p.overTLS()}, "1.1 200 6"},
		{[]string{"--http1.1", "--header", "Transfer-Encoding: chunked", "--data-binary", body, p.withoutTLS()}, "1.1 200 6"},
		{[]string{"--http2", "--data-binary", body, p.overTLS()}, "2 200 6"},
		{[]string{"--http2", "--compressed", "--range", "0-2", p.overTLS()}, "2 200 6"},
	} {
		said, err := all.run(t, patience, "curl", append([]string{"--silent", "--show-error", "--insecure", "--output", "/dev/null",
			"--write-out", "%{http_version} %{http_code} %{size_download}"}, test.arguments...)...)
		if err != nil || said != test.want {
			t.Errorf("curl %v: %v, it says %q and not %q", test.arguments, err, said, test.want)
		}
	}
}
