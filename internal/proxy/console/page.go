package console

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/peers"
)

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	styleText string
	//go:embed page.js
	scriptText string
)

// policy is a browser's: our style and our script, by their hashes, and nothing else.
var policy = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	hashOf(styleText), hashOf(scriptText))

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Everything is what is shown at once.
type Everything struct {
	// Processes are the proxies of the node.
	Processes []Process `json:"processes"`
	// Problem is why another is shown than was asked for.
	Problem string `json:"problem,omitempty"`
	// Shown is one of them.
	Shown View `json:"shown"`

	query query
}

// everything is what is asked for, of the process that is asked for, or else of the first that answers: so that it
// is the same whichever of them is asked.
func (c *Console) everything(r *http.Request) Everything {
	e := Everything{query: queryOf(r.URL.Query())}
	var err error
	if e.Processes, err = c.processes(r.Context()); err != nil {
		e.Problem = err.Error()
	}
	chosen := e.choose()
	if chosen == c.peers.Own {
		e.Shown = c.view(e.query)
		return e
	}
	if e.Shown, err = c.viewOf(r.Context(), chosen, e.query); err != nil {
		return c.instead(e, chosen, err)
	}
	return e
}

// instead shows this process in the place of another.
func (c *Console) instead(e Everything, of string, why error) Everything {
	e.Problem = fmt.Sprintf("%s is not shown: %s", peers.PodOf(of), cut(why.Error()))
	e.Shown = c.view(e.query)
	return e
}

// choose is the key of the process to show.
func (e *Everything) choose() string {
	answers := func(p Process) bool { return p.Problem == "" }
	if key := e.query.Process; key != "" {
		at := slices.IndexFunc(e.Processes, func(p Process) bool { return p.Key == key })
		if at >= 0 && answers(e.Processes[at]) {
			return key
		}
		e.Problem = "the proxy that was asked for is not there, or does not answer"
	}
	return e.Processes[max(slices.IndexFunc(e.Processes, answers), 0)].Key
}

// page is everything as HTML, json the same as JSON.
func (c *Console) page(e Everything) func(*bounded) error {
	return c.written(e, func(b *bounded, e Everything) error { return pageTemplate.Execute(b, e) })
}

func (c *Console) json(e Everything) func(*bounded) error {
	return c.written(e, func(b *bounded, e Everything) error { return asJSON(e)(b) })
}

// written writes everything. What another proxy answered may be too much for that.
func (c *Console) written(e Everything, write func(*bounded, Everything) error) func(*bounded) error {
	return func(b *bounded) error {
		err := write(b, e)
		if err != nil && e.Shown.Key != c.peers.Own {
			b.Reset()
			err = write(b, c.instead(e, e.Shown.Key, errTooMuch))
		}
		return err
	}
}

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"style":  func() template.HTML { return template.HTML("<style>" + styleText + "</style>") },
	"script": func() template.HTML { return template.HTML("<script>" + scriptText + "</script>") },
	"moment": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") },
	"list":   func(all []string) string { return strings.Join(all, ", ") },
	"last":   func(from, listed int) int { return from + listed },
	"first":  func(from int) int { return from + 1 },
}).Parse(pageText))

// Query is what was asked for.
func (e Everything) Query() query { return e.query }

// To is the same of another process.
func (e Everything) To(key string) template.URL {
	q := e.query
	q.Process = key
	return link(q)
}

// Before and After are the rules before and after those that are listed, empty where there are none.
func (e Everything) Before() template.URL {
	if e.Shown.From == 0 {
		return ""
	}
	return e.from(max(e.Shown.From-mostRules, 0))
}

// After are those after them.
func (e Everything) After() template.URL {
	next := e.Shown.From + len(e.Shown.Rules)
	if next >= e.Shown.All {
		return ""
	}
	return e.from(next)
}

func (e Everything) from(from int) template.URL {
	q := e.query
	q.From = from
	return link(q)
}

// JSON is the same as JSON.
func (e Everything) JSON() template.URL { return "json" + link(e.query) }

func link(q query) template.URL { return template.URL("?" + q.values().Encode()) }

// Ago is how long before this view something was.
func (v View) Ago(t time.Time) time.Duration { return v.Time.Sub(t).Round(time.Second) }
