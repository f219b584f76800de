package peers

import (
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
)

var update = flag.Bool("update", false, "rewrite docs/conformance/h2spec.md")

// cases is how many h2spec has, the strict ones included: with fewer it has not asked everything.
const cases = 146

// failure is a case of h2spec that a server fails.
type failure struct{ section, title string }

// whys say of each failure why it is none that a client meets. One that is not here is to be looked into.
var whys = map[failure]string{
	{"3.5", "Sends invalid connection preface"}: "The port serves HTTP/1.1, too: what is no preface is answered as a bad request of that, " +
		"with 400 and the end of the connection.",
	{"4.2", "Sends a large size HEADERS frame that exceeds the SETTINGS_MAX_FRAME_SIZE"}: "The frame has 20 KiB. The server's " +
		"SETTINGS permit 1 MiB, which the case does not read.",
	{"6.5.3", "Sends multiple values of SETTINGS_INITIAL_WINDOW_SIZE"}: "net/http ends a connection whose SETTINGS frame names a " +
		"parameter twice, against floods.",
	{"8.1.2.2", "Sends a HEADERS frame that contains the connection-specific header field"}:                       refused,
	{"8.1.2.2", "Sends a HEADERS frame that contains the TE header field with any value other than \"trailers\""}: refused,
}

const refused = "It is answered with 400, as RFC 9113, 8.1.1 permits, and nothing of it is forwarded. The case wants the stream reset."

// TestH2spec: of the cases of h2spec the proxy fails those that net/http's server fails by itself, and no other.
// docs/conformance/h2spec.md lists them.
func TestH2spec(t *testing.T) {
	program := buildH2spec(t)
	p, b := proxied(t), bare(t)
	servers := []struct {
		name  string
		port  uint16
		flags []string
	}{
		{"the proxy, TLS", p.encrypted, overTLS}, {"net/http, TLS", b.encrypted, overTLS},
		{"the proxy, without", p.plain, nil}, {"net/http, without", b.plain, nil},
	}
	failed, errs := make([][]failure, len(servers)), make([]error, len(servers))
	// Most of the time it waits whether something more comes.
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() { failed[i], errs[i] = h2spec(t, program, s.port, s.flags) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(servers); i += 2 {
		for _, f := range failed[i] {
			if !slices.Contains(failed[i+1], f) {
				t.Errorf("%s fails, and net/http's server does not: %s %s", servers[i].name, f.section, f.title)
			}
		}
	}
	var page strings.Builder
	page.WriteString(opening)
	for _, f := range everyOne(failed) {
		fmt.Fprintf(&page, "| %s | %s |", f.section, f.title)
		for i := range servers {
			fmt.Fprintf(&page, " %s |", map[bool]string{true: "fails", false: "passes"}[slices.Contains(failed[i], f)])
		}
		if whys[f] == "" {
			t.Errorf("say why it fails: %s %s", f.section, f.title)
		}
		fmt.Fprintf(&page, " %s |\n", whys[f])
	}
	golden.Equal(t, *update, filepath.Join("..", "..", "docs", "conformance", "h2spec.md"), page.String())
}

// everyOne are all failures, each once.
func everyOne(failed [][]failure) []failure {
	all := slices.Concat(failed...)
	slices.SortFunc(all, func(a, b failure) int { return strings.Compare(a.section+a.title, b.section+b.title) })
	return slices.Compact(all)
}

const opening = `# HTTP/2 by h2spec

What [h2spec](../../tools/h2spec/go.mod) finds in the [proxy](../guides/proxies.md#the-proxy-that-comes-with-the-controller),
and in a bare server of Go's net/http, which serves those connections of the proxy that speak HTTP/2. Of its 146 cases, the strict ones
included, these fail for one of them. ` + "`go test ./test/peers -run TestH2spec -update`" + ` writes this page; the test fails
where it says anything else, or where the proxy fails what net/http does not.

| section | case | proxy, TLS | net/http, TLS | proxy, without | net/http, without | why |
| --- | --- | --- | --- | --- | --- | --- |
`

// buildH2spec builds it as its module pins it.
func buildH2spec(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "h2spec")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "github.com/summerwind/h2spec/cmd/h2spec")
	cmd.Dir, cmd.Env = filepath.Join("..", "..", "tools", "h2spec"), append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

var overTLS = []string{"--tls", "--insecure"}

// h2spec asks a server everything, and gives what it fails. Each case waits for so long that a busy machine is no
// failure.
func h2spec(t *testing.T, program string, port uint16, flags []string) (failed []failure, err error) {
	report := filepath.Join(t.TempDir(), "report.xml")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	arguments := append([]string{"--strict", "--timeout=3", "--host=127.0.0.1", "--port=" + strconv.Itoa(int(port)), "--junit-report=" + report}, flags...)
	// It exits with 1 where a case fails, and also where it cannot begin: then there is no report.
	said, failing := exec.CommandContext(ctx, program, arguments...).CombinedOutput()
	content, err := os.ReadFile(report)
	if err != nil {
		return nil, fmt.Errorf("%w, %w: %s", failing, err, said)
	}
	var suites struct {
		Suites []struct {
			ID    string `xml:"id,attr"`
			Cases []struct {
				Title   string    `xml:"classname,attr"`
				Skipped *struct{} `xml:"skipped"`
				Error   *string   `xml:"error"`
				Failure *string   `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(content, &suites); err != nil {
		return nil, err
	}
	asked := 0
	for _, s := range suites.Suites {
		for _, c := range s.Cases {
			if c.Skipped == nil {
				asked++
			}
			if c.Error != nil || c.Failure != nil {
				failed = append(failed, failure{s.ID, c.Title})
			}
		}
	}
	if asked != cases {
		return nil, fmt.Errorf("it asked %d of its %d cases: %s", asked, cases, said)
	}
	return failed, nil
}
