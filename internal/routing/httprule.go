package routing

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"k8s.io/apimachinery/pkg/types"
)

// maxExpression bounds a regular expression, in bytes.
const maxExpression = 1024

// rule is one rule, without where it is served, and the backends that it names.
type rule struct {
	wire.Route
	backends []backendRef
}

// unsupported is a condition's reason and message for what is not supported.
func unsupported(format string, args ...any) Condition {
	return Condition{Reason: "UnsupportedValue", Message: fmt.Sprintf(format, args...)}
}

func (r *routeCompiler) readRule(in *HTTPRule) (*rule, Condition) {
	out := &rule{Route: wire.Route{Fallback: failed}}
	if in.Retry != nil || in.SessionPersistence != nil {
		return nil, unsupported("retry and sessionPersistence are not supported")
	}
	for i := range in.Matches {
		match, err := readMatch(&in.Matches[i])
		if err != nil {
			return nil, unsupported("%v", err)
		}
		out.Matches = append(out.Matches, match)
	}
	if len(in.Matches) == 0 {
		out.Matches = []wire.Match{{PathType: wire.Prefix, Path: "/"}}
	}
	var problem Condition
	if out.Filters, problem = readFilters(in.Filters, out.Matches); problem.Reason != "" {
		return nil, problem
	}
	if in.Timeouts != nil {
		var err error
		if out.Timeout, out.BackendTimeout, err = readTimeouts(in.Timeouts); err != nil {
			return nil, unsupported("%v", err)
		}
	}
	for i := range in.BackendRefs {
		share, problem := r.readBackend(&in.BackendRefs[i], out.Matches)
		if problem.Reason != "" {
			return nil, problem
		}
		out.Backends = append(out.Backends, share.Share)
		if share.Backend != "" {
			out.backends = append(out.backends, share.backend)
		}
	}
	return out, Condition{}
}

func readMatch(in *HTTPMatch) (out wire.Match, err error) {
	out.Path, out.Method = "/", deref(in.Method)
	if in.Path != nil {
		path := valueOr(in.Path.Value, "/")
		switch kind := valueOr(in.Path.Type, "PathPrefix"); kind {
		case "PathPrefix":
			out.Path, err = prefixPath(path)
		case "Exact":
			out.PathType = wire.Exact
			out.Path, err = normalPath(path)
		default:
			err = fmt.Errorf("path matches of type %s are not supported", kind)
		}
		if err != nil {
			return out, err
		}
	}
	if out.Headers, err = readNamed("header", in.Headers, strings.ToLower); err != nil {
		return out, err
	}
	out.Query, err = readNamed("query parameter", in.QueryParams, func(s string) string { return s })
	return out, err
}

// readNamed reads matches of headers or parameters. Of several of one name the first counts, as the API says.
func readNamed(what string, in []HTTPValueMatch, normal func(string) string) (out []wire.NamedMatch, err error) {
	for _, m := range in {
		named := wire.NamedMatch{Name: normal(m.Name), Value: deref(m.Value)}
		switch kind := valueOr(m.Type, "Exact"); kind {
		case "Exact":
		case "RegularExpression":
			named.Regex = true
			if err := checkExpression(named.Value); err != nil {
				return nil, fmt.Errorf("%s %s: %w", what, m.Name, err)
			}
		default:
			return nil, fmt.Errorf("%s %s: matches of type %s are not supported", what, m.Name, kind)
		}
		if !slices.ContainsFunc(out, func(o wire.NamedMatch) bool { return o.Name == named.Name }) {
			out = append(out, named)
		}
	}
	return out, nil
}

// checkExpression is an error that says where an expression is none of RE2.
func checkExpression(expression string) error {
	if len(expression) > maxExpression {
		return fmt.Errorf("a regular expression of %d bytes is longer than %d", len(expression), maxExpression)
	}
	_, err := regexp.Compile(expression)
	var wrong *syntax.Error
	if errors.As(err, &wrong) {
		return fmt.Errorf("at byte %d of the regular expression: %s: %q", max(0, strings.Index(expression, wrong.Expr)), wrong.Code, wrong.Expr)
	}
	return err
}

// readBackend gives a backend its share. One that is not resolved answers 500 for it.
func (r *routeCompiler) readBackend(in *HTTPBackend, matches []wire.Match) (share, Condition) {
	out := share{Share: wire.Share{Weight: 1, Status: failed}}
	if in.Weight != nil {
		out.Weight = uint32(max(0, *in.Weight))
	}
	var problem Condition
	if out.Filters, problem = readFilters(in.Filters, matches); problem.Reason != "" {
		return out, problem
	}
	ref, unresolved := r.resolveBackend(in)
	if unresolved.Reason == "" {
		out.Backend, out.backend, out.Status = ref.String(), ref, 0
	} else if r.unresolved.Reason == "" {
		r.unresolved = unresolved
	}
	return out, Condition{}
}

func (r *routeCompiler) resolveBackend(in *HTTPBackend) (backendRef, Condition) {
	n := types.NamespacedName{Namespace: valueOr(in.Namespace, r.object.Namespace), Name: in.Name}
	if deref(in.Group) != "" || valueOr(in.Kind, "Service") != "Service" {
		return backendRef{}, Condition{Reason: "InvalidKind", Message: fmt.Sprintf("backend %s is a %s of group %q: it must be a Service", in.Name, valueOr(in.Kind, "Service"), deref(in.Group))}
	}
	if !r.granted(subject{gatewayGroup, "HTTPRoute", r.object.Namespace, ""}, subject{"", "Service", n.Namespace, n.Name}) {
		return backendRef{}, Condition{Reason: "RefNotPermitted", Message: fmt.Sprintf("no ReferenceGrant in namespace %s lets HTTPRoutes of %s refer to Service %s", n.Namespace, r.object.Namespace, n.Name)}
	}
	ref, problem := r.resolve(n, portRef{number: deref(in.Port)})
	if problem == nil {
		return ref, Condition{}
	}
	return backendRef{}, Condition{Reason: [...]string{notFound: "BackendNotFound", refused: "BackendNotFound", unsupportedProtocol: "UnsupportedProtocol"}[problem.kind], Message: problem.message}
}
