package routing

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// rule is one rule, without where it is served, and the backends that it names.
type rule struct {
	wire.Route
	backends []backendRef
}

// unsupported is a condition's reason and message for what is not supported.
func unsupported(format string, args ...any) Condition {
	return Condition{Reason: "UnsupportedValue", Message: fmt.Sprintf(format, args...)}
}

func (r *routeCompiler) readRule(in *gatewayv1.HTTPRouteRule) (*rule, Condition) {
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

func readMatch(in *gatewayv1.HTTPRouteMatch) (out wire.Match, err error) {
	out.Path, out.Method = "/", text(in.Method)
	if in.Path != nil {
		path := textOr(in.Path.Value, "/")
		switch kind := textOr(in.Path.Type, "PathPrefix"); kind {
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
	for _, m := range in.Headers {
		name := strings.ToLower(string(m.Name))
		if out.Headers, err = appendNamed(out.Headers, "header "+string(m.Name), name, textOr(m.Type, "Exact"), m.Value); err != nil {
			return out, err
		}
	}
	for _, m := range in.QueryParams {
		name := string(m.Name)
		if out.Query, err = appendNamed(out.Query, "query parameter "+name, name, textOr(m.Type, "Exact"), m.Value); err != nil {
			return out, err
		}
	}
	return out, nil
}

// appendNamed reads the match of a header or parameter. Of several of one name the first counts, as the API says.
func appendNamed(all []wire.NamedMatch, what, name, kind, value string) ([]wire.NamedMatch, error) {
	switch kind {
	case "Exact":
	case "RegularExpression":
		if err := checkExpression(value); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
	default:
		return nil, fmt.Errorf("%s: matches of type %s are not supported", what, kind)
	}
	if slices.ContainsFunc(all, func(m wire.NamedMatch) bool { return m.Name == name }) {
		return all, nil
	}
	return append(all, wire.NamedMatch{Name: name, Value: value, Regex: kind == "RegularExpression"}), nil
}

// checkExpression is an error where proxies would refuse an expression, and says where it is none of RE2.
func checkExpression(expression string) error {
	_, _, err := wire.CompileExpression(expression)
	if wrong, is := errors.AsType[*syntax.Error](err); is {
		return fmt.Errorf("at byte %d of the regular expression: %s: %q", max(0, strings.Index(expression, wrong.Expr)), wrong.Code, wrong.Expr)
	}
	return err
}

// readBackend gives a backend its share. One that is not resolved answers 500 for it.
func (r *routeCompiler) readBackend(in *gatewayv1.HTTPBackendRef, matches []wire.Match) (share, Condition) {
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

func (r *routeCompiler) resolveBackend(in *gatewayv1.HTTPBackendRef) (backendRef, Condition) {
	n := types.NamespacedName{Namespace: textOr(in.Namespace, r.object.Namespace), Name: string(in.Name)}
	if text(in.Group) != "" || textOr(in.Kind, "Service") != "Service" {
		return backendRef{}, Condition{Reason: "InvalidKind", Message: fmt.Sprintf("backend %s is a %s of group %q: it must be a Service", in.Name, textOr(in.Kind, "Service"), text(in.Group))}
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
