package proxy

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// redirect is the status by which the route sends clients elsewhere, 0 where it does not.
func (x *exchange) redirect() (status int) {
	for i := range x.route.Filters {
		f := &x.route.Filters[i]
		if f.Kind != wire.Redirect {
			continue
		}
		path, fine := x.newPath(f.URL)
		if !fine {
			return http.StatusInternalServerError
		}
		x.location = x.origin(f.URL) + path + x.rest
		return int(f.URL.Status)
	}
	return 0
}

// origin is the scheme, host and port of where clients are sent. A port that the scheme implies is left
// out; that which is not given is the scheme's where a scheme is given, or the listener's (Gateway API
// v1.6, HTTPRequestRedirectFilter.port).
func (x *exchange) origin(u *wire.URLFilter) string {
	scheme, port := u.Scheme, int(u.Port)
	if scheme == "" {
		scheme = "http"
		if x.asked.TLS {
			scheme = "https"
		}
		if port == 0 {
			port = int(x.client.port)
		}
	}
	host := u.Hostname
	if host == "" {
		host = x.asked.Host
	}
	if port == 0 || scheme == "http" && port == 80 || scheme == "https" && port == 443 {
		return scheme + "://" + host
	}
	return scheme + "://" + host + ":" + strconv.Itoa(port)
}

// newPath is the request's path after a filter, in normal form, and whether that has one.
func (x *exchange) newPath(u *wire.URLFilter) (path string, fine bool) {
	switch {
	case u.ReplacePath != nil:
		path = *u.ReplacePath
	case u.ReplacePrefix != nil:
		path = replacePrefix(x.path, x.match.Path, *u.ReplacePrefix)
	default:
		return x.path, true
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	path, err := wire.NormalPath(path)
	return path, err == nil
}

// replacePrefix puts another in the place of the prefix that a path has. A slash at the end of either
// counts for nothing, and what is left of the path begins with one, or is empty.
func replacePrefix(path, prefix, by string) string {
	rest := path[min(len(strings.TrimSuffix(prefix, "/")), len(path)):]
	return strings.TrimSuffix(by, "/") + rest
}

// filter changes the request as the route and the share ask for, or says by which status it is to be
// answered because what they ask for cannot be.
func (x *exchange) filter() (status int) {
	for _, filters := range [...][]wire.Filter{x.route.Filters, x.share.Filters} {
		for i := range filters {
			switch f := &filters[i]; f.Kind {
			case wire.RequestHeaders:
				x.filterRequest(f.Headers)
			case wire.Rewrite:
				path, fine := x.newPath(f.URL)
				if !fine {
					return http.StatusInternalServerError
				}
				x.path = path
				if f.URL.Hostname != "" {
					x.host = f.URL.Hostname
				}
			}
		}
	}
	x.trimTrailer()
	return 0
}

func (x *exchange) filterRequest(f *wire.HeaderFilter) {
	for name := range x.r.Header {
		if strings.IndexByte(name, '_') >= 0 && concerns(f, dashed(name)) {
			delete(x.r.Header, name)
		}
	}
	for _, set := range f.Set {
		if set.Name == "host" {
			x.host = set.Value
		}
	}
	change(x.r.Header, f)
}

// concerns reports whether a filter gives a value to a header, or takes it away.
func concerns(f *wire.HeaderFilter, name string) bool {
	is := func(h wire.Header) bool { return strings.EqualFold(h.Name, name) }
	return slices.ContainsFunc(f.Set, is) || slices.ContainsFunc(f.Add, is) ||
		slices.ContainsFunc(f.Remove, func(removed string) bool { return strings.EqualFold(removed, name) })
}

// filterResponse changes the fields of a response.
func (x *exchange) filterResponse(h http.Header) {
	if x.route == nil {
		return
	}
	for i := range x.route.Filters {
		if f := &x.route.Filters[i]; f.Kind == wire.ResponseHeaders {
			change(h, f.Headers)
		}
	}
	if x.share == nil {
		return
	}
	for i := range x.share.Filters {
		if f := &x.share.Filters[i]; f.Kind == wire.ResponseHeaders {
			change(h, f.Headers)
		}
	}
}

// change sets, adds and removes fields. Those that say how a message is framed, or that are about one
// connection, are not for filters.
func change(h http.Header, f *wire.HeaderFilter) {
	for _, set := range f.Set {
		if name := http.CanonicalHeaderKey(set.Name); !isHop(name) {
			h[name] = []string{set.Value}
		}
	}
	for _, add := range f.Add {
		if name := http.CanonicalHeaderKey(add.Name); !isHop(name) {
			h[name] = append(h[name][:len(h[name]):len(h[name])], add.Value)
		}
	}
	for _, remove := range f.Remove {
		if name := http.CanonicalHeaderKey(remove); !isHop(name) {
			delete(h, name)
		}
	}
}
