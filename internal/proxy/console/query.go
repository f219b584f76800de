package console

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
)

// query is what is asked for.
type query struct {
	// Process is the key of the one that is shown, empty for any.
	Process string
	// Text is what listed rules and certificates have somewhere, whatever its case, From how many rules come before the first that is
	// listed.
	Text string
	From int
	// Asked is the request whose rule is looked for, where it has a host. Headers are its headers as they were
	// written.
	Asked   table.Asked
	Headers string
}

func queryOf(v url.Values) query {
	q := query{Process: v.Get("process"), Text: v.Get("q"), Headers: v.Get("headers")}
	q.From, _ = strconv.Atoi(v.Get("from"))
	q.From = max(q.From, 0)
	q.Asked = table.Asked{
		Method: strings.ToUpper(strings.TrimSpace(v.Get("method"))), Scheme: v.Get("scheme"), Host: strings.TrimSpace(v.Get("host")),
		Target: v.Get("path"), Local: strings.TrimSpace(v.Get("address")),
	}
	if q.Asked.Target == "" {
		q.Asked.Target = "/"
	}
	for line := range strings.Lines(q.Headers) {
		if line = strings.TrimSpace(line); line != "" {
			q.Asked.Headers = append(q.Asked.Headers, line)
		}
	}
	return q
}

// values is queryOf read backward.
func (q query) values() url.Values {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	set("process", q.Process)
	set("q", q.Text)
	if q.From > 0 {
		set("from", strconv.Itoa(q.From))
	}
	set("method", q.Asked.Method)
	set("scheme", q.Asked.Scheme)
	set("host", q.Asked.Host)
	set("address", q.Asked.Local)
	set("headers", q.Headers)
	if q.Asked.Target != "/" {
		set("path", q.Asked.Target)
	}
	return v
}
