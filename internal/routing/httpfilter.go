package routing

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// readFilters reads filters in the order in which they act, or says what is not supported.
func readFilters(in []gatewayv1.HTTPRouteFilter, matches []wire.Match) (out []wire.Filter, problem Condition) {
	seen := map[wire.FilterKind]bool{}
	for i := range in {
		f, problem := readFilter(&in[i], matches)
		if problem.Reason != "" {
			return nil, problem
		}
		if seen[f.Kind] {
			return nil, unsupported("filter %s stands there twice", in[i].Type)
		}
		seen[f.Kind] = true
		out = append(out, f)
	}
	if seen[wire.Redirect] && seen[wire.Rewrite] {
		return nil, Condition{Reason: "IncompatibleFilters", Message: "a request that is redirected is not rewritten"}
	}
	slices.SortStableFunc(out, func(a, b wire.Filter) int { return int(a.Kind) - int(b.Kind) })
	return out, Condition{}
}

func readFilter(in *gatewayv1.HTTPRouteFilter, matches []wire.Match) (wire.Filter, Condition) {
	switch {
	case in.Type == "RequestHeaderModifier" && in.RequestHeaderModifier != nil:
		return wire.Filter{Kind: wire.RequestHeaders, Headers: readModifier(in.RequestHeaderModifier)}, Condition{}
	case in.Type == "ResponseHeaderModifier" && in.ResponseHeaderModifier != nil:
		return wire.Filter{Kind: wire.ResponseHeaders, Headers: readModifier(in.ResponseHeaderModifier)}, Condition{}
	case in.Type == "RequestRedirect" && in.RequestRedirect != nil:
		url, problem := readRedirect(in.RequestRedirect, matches)
		return wire.Filter{Kind: wire.Redirect, URL: url}, problem
	case in.Type == "URLRewrite" && in.URLRewrite != nil:
		url := &wire.URLFilter{Hostname: text(in.URLRewrite.Hostname)}
		problem := replacePath(url, in.URLRewrite.Path, matches)
		return wire.Filter{Kind: wire.Rewrite, URL: url}, problem
	}
	return wire.Filter{}, unsupported("filter %s is not supported", in.Type)
}

func readModifier(m *gatewayv1.HTTPHeaderFilter) *wire.HeaderFilter {
	out := &wire.HeaderFilter{Set: readHeaders(m.Set), Add: readHeaders(m.Add)}
	for _, name := range m.Remove {
		out.Remove = append(out.Remove, strings.ToLower(name))
	}
	return out
}

func readHeaders(in []gatewayv1.HTTPHeader) (out []wire.Header) {
	for _, h := range in {
		out = append(out, wire.Header{Name: strings.ToLower(string(h.Name)), Value: h.Value})
	}
	return out
}

// readRedirect reads where a client is sent, by 302 where no status is given.
func readRedirect(r *gatewayv1.HTTPRequestRedirectFilter, matches []wire.Match) (*wire.URLFilter, Condition) {
	status := 302
	if r.StatusCode != nil {
		status = *r.StatusCode
	}
	if !wire.IsRedirect(status) {
		return nil, unsupported("a redirect with status %d is not supported", status)
	}
	scheme := strings.ToLower(deref(r.Scheme))
	if scheme != "" && scheme != "http" && scheme != "https" {
		return nil, unsupported("a redirect to scheme %s is not supported", scheme)
	}
	url := &wire.URLFilter{Scheme: scheme, Hostname: text(r.Hostname), Port: uint16(deref(r.Port)), Status: uint16(status)}
	return url, replacePath(url, r.Path, matches)
}

// replacePath replaces a path, or the prefix of one where that is what matched.
func replacePath(url *wire.URLFilter, in *gatewayv1.HTTPPathModifier, matches []wire.Match) Condition {
	if in == nil {
		return Condition{}
	}
	switch {
	case in.Type == "ReplaceFullPath" && in.ReplaceFullPath != nil:
		url.ReplacePath = in.ReplaceFullPath
	case in.Type == "ReplacePrefixMatch" && in.ReplacePrefixMatch != nil:
		if slices.ContainsFunc(matches, func(m wire.Match) bool { return m.PathType != wire.Prefix }) {
			return Condition{Reason: "IncompatibleFilters", Message: "ReplacePrefixMatch needs matches of type PathPrefix"}
		}
		url.ReplacePrefix = in.ReplacePrefixMatch
	default:
		return unsupported("a path modifier of type %s is not supported", in.Type)
	}
	return Condition{}
}

func readTimeouts(in *gatewayv1.HTTPRouteTimeouts) (request, backend uint32, err error) {
	if request, err = readDuration("request", in.Request); err != nil {
		return 0, 0, err
	}
	backend, err = readDuration("backendRequest", in.BackendRequest)
	return request, backend, err
}

// readDuration reads a duration of GEP-2257: one to four numbers of at most five digits with a unit, h, m,
// s or ms. It is in milliseconds, 0 for none.
func readDuration(name string, in *gatewayv1.Duration) (uint32, error) {
	if in == nil {
		return 0, nil
	}
	d, err := time.ParseDuration(string(*in))
	if err != nil || !isGatewayDuration(string(*in)) || d.Milliseconds() > math.MaxUint32 {
		return 0, fmt.Errorf("timeout %s: %q is no duration of at most four numbers with h, m, s or ms", name, *in)
	}
	return uint32(d.Milliseconds()), nil
}

func isGatewayDuration(s string) bool {
	parts := 0
	for s != "" {
		digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
		rest := s[digits:]
		unit := len(rest) - len(strings.TrimLeft(rest, "hms"))
		if digits < 1 || digits > 5 || !slices.Contains([]string{"h", "m", "s", "ms"}, rest[:unit]) {
			return false
		}
		s, parts = rest[unit:], parts+1
	}
	return 1 <= parts && parts <= 4
}
