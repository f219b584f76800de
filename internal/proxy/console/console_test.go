package console

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	"golang.org/x/net/html"
)

var spaces = regexp.MustCompile(`\s+`)

var update = flag.Bool("update", false, "write testdata/*.out.* anew")

// TestGolden shows the proxy of testdata/NAME.in.yaml as NAME.out.txt, what a browser shows of the page, and as
// NAME.out.json: for the first of its queries, and for others of the page what is new in it.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("there are %d cases: %v", len(files), err)
	}
	for _, file := range files {
		base := strings.TrimSuffix(file, ".in.yaml")
		t.Run(filepath.Base(base), func(t *testing.T) {
			p := readProxy(t, file)
			c := p.console(t)
			first := c.shown(p.Queries[0])
			before := inText(t, c.html(t, first))
			text := before
			for _, query := range p.Queries[1:] {
				text += fmt.Sprintf("== /%s\n%s", query, news(before, inText(t, c.html(t, c.shown(query)))))
			}
			golden.Equal(t, *update, base+".out.txt", text)
			var b bounded
			if err := c.json(first)(&b); err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, *update, base+".out.json", b.String())
		})
	}
}

// news are the lines that were not there before, and with a minus those that are not there any more.
func news(before, after string) (out string) {
	had, has := slices.Collect(strings.Lines(before)), slices.Collect(strings.Lines(after))
	for _, line := range had {
		if !slices.Contains(has, line) {
			out += "- " + line
		}
	}
	for _, line := range has {
		if !slices.Contains(had, line) {
			out += line
		}
	}
	return out
}

// inText is what a page says in its main part: a line for each row, cells apart by bars, and a mark before what is
// bad.
func inText(t testing.TB, page string) string {
	t.Helper()
	var b strings.Builder
	within := false
	for z := html.NewTokenizer(strings.NewReader(page)); z.Next() != html.ErrorToken; {
		token := z.Token()
		name := token.Data
		if name == "main" {
			within = token.Type == html.StartTagToken
		}
		switch {
		case !within:
		case token.Type == html.TextToken:
			b.WriteString(spaces.ReplaceAllString(token.Data, " "))
		case token.Type == html.StartTagToken:
			for _, a := range token.Attr {
				if a.Key == "class" && a.Val == "bad" {
					b.WriteByte('!')
				}
			}
			if name == "br" {
				b.WriteString("; ")
			}
		case name == "td" || name == "th":
			b.WriteString(" | ")
		case name == "tr" || name == "p" || name == "h2" || name == "table":
			b.WriteByte('\n')
		}
	}
	var out strings.Builder
	for line := range strings.Lines(b.String()) {
		if line = strings.TrimSpace(spaces.ReplaceAllString(line, " ")); line != "" {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}

// TestFence: who is answered, and with which bounds for a browser.
func TestFence(t *testing.T) {
	url := many(1).console(t).served(t)
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	for _, test := range []struct {
		method, path, host string
		want               int
	}{
		{"GET", "/", "127.0.0.1:9080", 200}, {"GET", "/", "127.0.0.1", 200}, {"GET", "/", "[::1]:9080", 200}, {"GET", "/", "[::1]", 200},
		{"GET", "/", "LocalHost:9080", 200}, {"HEAD", "/json", "localhost", 200}, {"GET", "/json", "10.0.0.7:1", 200},
		{"GET", "/", "rebound.example.com", 403}, {"GET", "/", "localhost.example.com:9080", 403}, {"GET", "/json", "127.0.0.1.example.com", 403},
		{"POST", "/", "localhost", 405}, {"DELETE", "/json", "localhost", 405}, {"OPTIONS", "/", "localhost", 405},
		{"GET", "/metrics", "localhost", 404},
	} {
		response, _ := got(t, test.method, url+test.path, host(test.host))
		if response.StatusCode != test.want {
			t.Errorf("%s %s of %s is answered %d, want %d", test.method, test.path, test.host, response.StatusCode, test.want)
		}
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'self'"} {
			if !strings.Contains(response.Header.Get("Content-Security-Policy"), want) {
				t.Errorf("%s %s: the policy has no %s", test.method, test.path, want)
			}
		}
		if strings.Contains(response.Header.Get("Content-Security-Policy"), "unsafe") || response.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("the headers are %v", response.Header)
		}
	}
}

// TestPolicy: the page has the script and the style that the policy names, in each byte.
func TestPolicy(t *testing.T) {
	c := many(1).console(t)
	page := c.html(t, c.shown(""))
	for element, text := range map[string]string{"script": scriptText, "style": styleText} {
		_, rest, _ := strings.Cut(page, "<"+element+">")
		inner, _, found := strings.Cut(rest, "</"+element+">")
		if !found || inner != text || !strings.Contains(policy, "'"+hashOf(inner)+"'") {
			t.Errorf("the %s is %q, and the policy %s", element, inner, policy)
		}
	}
}

// TestManyAtOnce: a few are answered, and the next one is told to come again.
func TestManyAtOnce(t *testing.T) {
	c := many(1).console(t)
	var inside atomic.Int32
	goOn := make(chan bool)
	c.options.State = func() State {
		inside.Add(1)
		<-goOn
		return State{}
	}
	url := c.served(t)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer close(goOn)
	answered := make(chan *http.Response, maxRequests+1)
	ask := func() {
		asking.Go(func() {
			response, err := http.Get(url + "/json")
			if err != nil {
				t.Error(err)
				return
			}
			response.Body.Close()
			answered <- response
		})
	}
	for i := range maxRequests {
		ask()
		await.True(t, fmt.Sprintf("%d are let in", i+1), func() bool { return int(inside.Load()) == i+1 })
	}
	ask()
	await.True(t, "one more is answered while these wait", func() bool { return len(answered) > 0 })
	if response := <-answered; response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") != "1" {
		t.Errorf("one more is answered %d", response.StatusCode)
	}
}

// TestPages lead from one to the next, to each rule once.
func TestPages(t *testing.T) {
	c := many(250).console(t)
	var seen []string
	query, e := "", Everything{}
	for next := true; next; next = query != "" {
		e = c.shown(query)
		for _, r := range e.Shown.Rules {
			seen = append(seen, r.Host)
		}
		query = string(e.After())
	}
	if len(seen) != 250 || !slices.IsSorted(seen) || len(slices.Compact(seen)) != 250 {
		t.Errorf("pages show %d hosts: %q", len(seen), seen)
	}
	if e = c.shown(string(e.Before())); e.Shown.From != 100 || e.After() != "?from=200" {
		t.Errorf("the page before begins at %d", e.Shown.From)
	}
}

// TestTenThousandHosts: a page is as long as with a hundred and one, and a search finds one.
func TestTenThousandHosts(t *testing.T) {
	c := many(10_000).console(t)
	for _, query := range []string{"", "?from=9900", "?q=example"} {
		e := c.shown(query)
		if len(e.Shown.Rules) != mostRules || e.Shown.All != 10_000 || len(e.Shown.Backends.List) != mostRules {
			t.Errorf("%s shows %d of %d, and %d backends", query, len(e.Shown.Rules), e.Shown.All, len(e.Shown.Backends.List))
		}
		if page := c.html(t, e); len(page) > 100_000 {
			t.Errorf("the page has %d bytes", len(page))
		}
	}
	e := c.shown("?q=h07777.")
	if e.Shown.All != 1 || e.Shown.Rules[0].Host != "h07777.example.com" || e.Before()+e.After() != "" {
		t.Errorf("the search finds %d", e.Shown.All)
	}
	if e = c.shown("?from=99999"); len(e.Shown.Rules) != 0 || e.Shown.From != 10_000 {
		t.Errorf("beyond the end there are %d, from %d", len(e.Shown.Rules), e.Shown.From)
	}
}

// TestNoKeys: neither form has anything of a certificate's key.
func TestNoKeys(t *testing.T) {
	p := many(1)
	certificate := signed(t, []string{"a.example.com"}, noon, noon.Add(time.Hour))
	p.Resources = append(p.Resources, wire.Resource{Name: "shop/key", Certificate: certificate})
	c := p.console(t)
	e := c.shown("?q=key&host=a.example.com")
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "a.example.com") {
		t.Errorf("the certificate is not shown: %s", data)
	}
	secret := strings.Split(string(certificate.Key), "\n")[1][:40]
	for _, text := range []string{string(data), c.html(t, e)} {
		if strings.Contains(text, secret) || strings.Contains(text, "PRIVATE KEY") {
			t.Errorf("a key is shown:\n%s", text)
		}
	}
}

// TestHostileNames: whatever names and messages hold, the page has our script and no other, and no attribute that
// is one.
func TestHostileNames(t *testing.T) {
	for _, text := range hostile {
		p := many(1)
		p.Pod = text
		p.State = State{Unready: text, Position: text, Refused: []wire.Refusal{{Name: text, Reason: text}}, Unavailable: map[uint16]string{80: text}}
		p.Resources = append(p.Resources,
			wire.Resource{Name: text, Endpoints: &wire.Endpoints{All: []wire.Endpoint{{Address: "10.1.0.1", Port: 80, UID: text, Node: text, Zone: text}}}},
			wire.Resource{Name: text, Backend: &wire.Backend{Port: 80, Cookie: text}},
			wire.Resource{Name: text, Listener: &wire.Listener{Object: wire.Object{Kind: text, Namespace: text, Name: text}, Section: text, Port: 81}},
			wire.Resource{Name: text, Route: &wire.Route{Object: wire.Object{Kind: text, Namespace: text, Name: text}, Named: text, Listeners: []string{"web", text},
				Matches:  []wire.Match{{Path: "/", Method: text, Headers: []wire.NamedMatch{{Name: text, Value: text}}, Query: []wire.NamedMatch{{Name: text, Value: text}}}},
				Backends: []wire.Share{{Backend: text, Weight: 1}}}})
		c := p.console(t)
		c.options.Endpoints = func(string, int) ([]Endpoint, int) {
			return []Endpoint{{Endpoint: wire.Endpoint{Address: text, UID: text}, Out: noon, Failed: text}}, 1
		}
		e := c.shown("")
		e.query = query{Process: text, Text: text, Headers: text}
		e.query.Asked.Method, e.query.Asked.Host, e.query.Asked.Target, e.query.Asked.Local = text, text, text, text
		e.Problem, e.Shown.NoAnswer = text, text
		e.Processes = append(e.Processes, Process{Key: text, Pod: text, Problem: text}, Process{Key: text, Pod: text, Version: text, Position: text})
		harmless(t, c.html(t, e))
		e.Shown.explain(c.options.Table(), table.Asked{Host: "example.com", Target: "/"})
		if e.Shown.Answer == nil || len(e.Shown.Answer.Others) == 0 {
			t.Fatalf("the answer is %+v", e.Shown.Answer)
		}
		harmless(t, c.html(t, e))
	}
}

// The elements that the page has, and their attributes.
const (
	allowed = "html head body title meta style noscript script h1 h2 p form input label button fieldset legend select option textarea main table tr th td a span br"
	given   = "lang charset name content http-equiv id class method type value size placeholder selected rows cols href colspan"
)

// harmless fails where a page has more than the page is to have.
func harmless(t testing.TB, page string) {
	t.Helper()
	scripts := 0
	for z := html.NewTokenizer(strings.NewReader(page)); z.Next() != html.ErrorToken; {
		token := z.Token()
		if token.Type != html.StartTagToken && token.Type != html.SelfClosingTagToken {
			continue
		}
		if token.Data == "script" {
			scripts++
		}
		if !strings.Contains(" "+allowed+" ", " "+token.Data+" ") {
			t.Fatalf("the page has an element %q", token.Data)
		}
		for _, a := range token.Attr {
			if !strings.Contains(" "+given+" ", " "+a.Key+" ") {
				t.Fatalf("an element %s has an attribute %q", token.Data, a.Key)
			}
			if a.Key == "href" && !strings.HasPrefix(a.Val, "?") && !strings.HasPrefix(a.Val, "json?") {
				t.Fatalf("a link leads to %q", a.Val)
			}
		}
	}
	if scripts != 1 {
		t.Fatalf("the page has %d scripts", scripts)
	}
}
