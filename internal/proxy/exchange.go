package proxy

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/upstream"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// statusGone is that of a request whose client did not wait for the answer. It is counted, and sent to
// nobody.
const statusGone = 499

// exchange is a request and its response. It is used again, with its memory.
type exchange struct {
	p      *Proxy
	w      http.ResponseWriter
	r      *http.Request
	client *clientConn
	start  time.Time
	// status is that of the answer.
	status int
	// last says whether the connection ends with the answer.
	last bool
	// writeBy is until when a client of HTTP/2 is to take what is written, zero for any time.
	writeBy time.Time

	// asked is what leads to the route. Its functions are made once.
	asked table.Request
	query url.Values
	route *table.Route
	match *wire.Match
	share *wire.Share
	// location is where the client is sent instead.
	location string

	// host, path and rest are as they are sent: rest is the query with its "?", as it came.
	host, path, rest string
	// upgrade is the protocol to which client and endpoint are to change, empty for none.
	upgrade string

	// hasBody says whether the request has one, small whether it is read before it is sent, into kept, and
	// expects whether the client waits for 100 (Continue).
	hasBody, small, expects bool
	kept                    []byte
	body                    clientBody

	backend *backend
	try     try
	answer  answer
	// values are those of the answer's header.
	values []string
	// shared says whether others may use its memory after its end, hinted whether the header of the answer still has what
	// an informational response had.
	shared, hinted bool

	head     upstream.Head
	request  upstream.Request
	response upstream.Response
	// inform, stop and trailer are functions for request, trim is one for body, all made once.
	inform     func(int, []message.Field)
	stop, trim func()
	trailer    func() http.Header
}

func newExchange(p *Proxy) *exchange {
	x := &exchange{p: p}
	x.asked.Header, x.asked.Query = x.header, x.parameter
	x.inform, x.stop, x.trim = x.passOn, x.body.stop, x.trimTrailer
	x.trailer = func() http.Header { return x.r.Trailer }
	return x
}

func (x *exchange) begin(w http.ResponseWriter, r *http.Request) {
	x.w, x.r, x.start = w, r, time.Now()
	x.client, _ = r.Context().Value(clientKey{}).(*clientConn)
}

// clear forgets the request, and keeps the memory.
func (x *exchange) clear() {
	clear(x.try.tried)
	clear(x.try.unreached)
	clear(x.answer.header)
	clear(x.values)
	*x = exchange{
		p: x.p, asked: table.Request{Header: x.asked.Header, Query: x.asked.Query},
		kept: x.kept[:0], values: x.values[:0], try: try{tried: x.try.tried[:0], unreached: x.try.unreached[:0]},
		head: x.head, response: x.response, inform: x.inform, stop: x.stop, trim: x.trim, trailer: x.trailer,
	}
}

// serve takes the request to an endpoint and the response back, or answers itself.
func (x *exchange) serve() {
	if status := x.pass(); status != 0 {
		x.refuse(status)
		return
	}
	x.respond()
}

// pass gives the request to an endpoint that answers, or says by which status it is to be answered.
func (x *exchange) pass() (status int) {
	if status = x.read(); status != 0 {
		return status
	}
	// Nothing is matched by what a stranger says of himself.
	x.forward()
	if status = x.decide(); status != 0 {
		return status
	}
	defer x.backend.release()
	if status = x.filter(); status != 0 {
		return status
	}
	if status = x.readBody(); status != 0 {
		return status
	}
	return x.send()
}

// decide says where the request goes. Where the backend was removed after the table was read, the next table says it.
func (x *exchange) decide() (status int) {
	for {
		t := x.p.table.Load()
		if status = x.find(t); status != 0 {
			return status
		}
		if status = x.redirect(); status != 0 {
			return status
		}
		if status = x.choose(); status != 0 {
			return status
		}
		if x.backend != nil && x.backend.hold(x.start) {
			return 0
		}
		x.backend = nil
		if x.p.table.Load() == t {
			return http.StatusServiceUnavailable
		}
	}
}

// find looks the request's route up.
func (x *exchange) find(t *table.Table) (status int) {
	a := t.Lookup(&x.asked)
	x.route, x.match = a.Route, a.Match
	if a.Outcome == table.NoListener {
		// Where none is left, no more can come of the connection.
		_, found := t.Speaks(x.client.local, x.client.port)
		x.last = !found
	}
	return a.Outcome.Status()
}

// choose picks one of the route's backends, nil where that was removed.
func (x *exchange) choose() (status int) {
	backends := x.p.backendsOf(x.route)
	at := backends.choose(x.route.Backends)
	switch {
	case at < 0 && x.route.Fallback != 0:
		return int(x.route.Fallback)
	case at < 0:
		return http.StatusInternalServerError
	}
	x.share = &x.route.Backends[at]
	if x.share.Backend == "" {
		return int(x.share.Status)
	}
	x.backend = backends.all[at]
	return 0
}

// header is the value of a header by which the request may be routed, all of several with commas.
func (x *exchange) header(name string) (value string, found bool) {
	values := x.r.Header[http.CanonicalHeaderKey(name)]
	switch len(values) {
	case 0:
		if name == "host" {
			return x.r.Host, true
		}
		return "", false
	case 1:
		return values[0], true
	}
	return strings.Join(values, ","), true
}

// parameter is the first value of a parameter of the query.
func (x *exchange) parameter(name string) (value string, found bool) {
	if x.query == nil {
		// What cannot be read of it has no parameters.
		x.query, _ = url.ParseQuery(strings.TrimPrefix(x.rest, "?"))
	}
	values := x.query[name]
	if len(values) == 0 {
		return "", false
	}
	return values[0], true
}
