package wire

import "pgregory.net/rapid"

// text is any UTF-8, most often short and empty now and then.
func text(t *rapid.T, label string) string { return rapid.StringN(0, 8, 24).Draw(t, label) }

func word(t *rapid.T, label string) string { return rapid.StringN(1, 8, 24).Draw(t, label) }

// several are none or more, nil where they are none, as a reader makes them.
func several[T any](t *rapid.T, label string, one func(*rapid.T) T) []T {
	var all []T
	for range rapid.IntRange(0, 3).Draw(t, label) {
		all = append(all, one(t))
	}
	return all
}

func texts(t *rapid.T, label string) []string {
	return several(t, label, func(t *rapid.T) string { return text(t, label) })
}

func chunk(t *rapid.T, label string) []byte {
	if b := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, label); len(b) > 0 {
		return b
	}
	return nil
}

func object(t *rapid.T) Object {
	return Object{Kind: text(t, "kind"), Namespace: text(t, "namespace"), Name: text(t, "object"),
		Created: rapid.Int64().Draw(t, "created"), Generation: rapid.Int64().Draw(t, "generation")}
}

func named(t *rapid.T) NamedMatch {
	return NamedMatch{Name: text(t, "name"), Value: text(t, "value"), Regex: rapid.Bool().Draw(t, "regex")}
}

func header(t *rapid.T) Header { return Header{Name: text(t, "name"), Value: text(t, "value")} }

func match(t *rapid.T) Match {
	return Match{PathType: PathType(rapid.Uint8().Draw(t, "type")), Path: text(t, "path"), Method: text(t, "method"),
		Headers: several(t, "headers", named), Query: several(t, "query", named)}
}

func maybe(t *rapid.T, label string) *string {
	if !rapid.Bool().Draw(t, label) {
		return nil
	}
	s := text(t, label)
	return &s
}

func filter(t *rapid.T) Filter {
	f := Filter{Kind: FilterKind(rapid.Uint8().Draw(t, "filter"))}
	if rapid.Bool().Draw(t, "headers") {
		f.Headers = &HeaderFilter{Set: several(t, "set", header), Add: several(t, "add", header), Remove: texts(t, "remove")}
	}
	if rapid.Bool().Draw(t, "url") {
		f.URL = &URLFilter{Scheme: text(t, "scheme"), Hostname: text(t, "hostname"), Port: rapid.Uint16().Draw(t, "port"),
			ReplacePath: maybe(t, "path"), ReplacePrefix: maybe(t, "prefix"), Status: rapid.Uint16().Draw(t, "status")}
	}
	return f
}

func share(t *rapid.T) Share {
	return Share{Backend: text(t, "backend"), Weight: rapid.Uint32().Draw(t, "weight"),
		Status: rapid.Uint16().Draw(t, "status"), Filters: several(t, "filters", filter)}
}

func endpoint(t *rapid.T) Endpoint {
	return Endpoint{Address: text(t, "address"), Port: rapid.Uint16().Draw(t, "port"), UID: text(t, "uid"), Zone: text(t, "zone"),
		Node: text(t, "node"), State: EndpointState(rapid.Uint8().Draw(t, "state"))}
}

// resource is any that can be told.
func resource(t *rapid.T) Resource {
	r := Resource{Name: word(t, "name")}
	switch rapid.SampledFrom([]Kind{KindCertificate, KindEndpoints, KindBackend, KindListener, KindRoute}).Draw(t, "kind") {
	case KindCertificate:
		r.Certificate = &Certificate{Chain: chunk(t, "chain"), Key: chunk(t, "key")}
	case KindEndpoints:
		r.Endpoints = &Endpoints{All: several(t, "endpoints", endpoint)}
	case KindBackend:
		r.Backend = &Backend{Service: object(t), Port: rapid.Uint16().Draw(t, "port"), Protocol: text(t, "protocol"), Cookie: text(t, "cookie"),
			MaxFails: rapid.Uint32().Draw(t, "fails"), FailTimeout: rapid.Uint32().Draw(t, "timeout")}
	case KindListener:
		r.Listener = &Listener{Object: object(t), Section: text(t, "section"), Address: text(t, "address"), Port: rapid.Uint16().Draw(t, "port"),
			Hostname: text(t, "hostname"), TLS: rapid.Bool().Draw(t, "tls"), Certificates: texts(t, "certificates")}
	case KindRoute:
		r.Route = &Route{Object: object(t), Rule: rapid.Uint32().Draw(t, "rule"), Named: text(t, "named"),
			Listeners: texts(t, "listeners"), Hostnames: texts(t, "hostnames"), OneLabel: rapid.Bool().Draw(t, "one label"),
			Matches: several(t, "matches", match), Filters: several(t, "filters", filter), Backends: several(t, "backends", share),
			Fallback: rapid.Uint16().Draw(t, "fallback"), Timeout: rapid.Uint32().Draw(t, "timeout"), BackendTimeout: rapid.Uint32().Draw(t, "try")}
	}
	return r
}

func request(t *rapid.T) Request {
	m := Request{Node: text(t, "node"), TypeURL: text(t, "type"), Nonce: text(t, "nonce")}
	if versions := rapid.MapOfN(rapid.String(), rapid.String(), 0, 4).Draw(t, "versions"); len(versions) > 0 {
		m.Versions = versions
	}
	if rapid.Bool().Draw(t, "error") {
		m.Error = &Status{Code: rapid.Int32().Draw(t, "code"), Message: text(t, "message")}
	}
	return m
}

func response(t *rapid.T) Response {
	return Response{Position: text(t, "position"), TypeURL: text(t, "type"), Nonce: text(t, "nonce"), Removed: texts(t, "removed"),
		Resources: several(t, "resources", func(t *rapid.T) Delivery {
			return Delivery{Name: text(t, "name"), Version: text(t, "version"), TypeURL: text(t, "type"), Value: chunk(t, "value")}
		})}
}
