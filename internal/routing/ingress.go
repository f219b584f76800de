package routing

import (
	"fmt"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reasons of events about Ingresses.
const (
	// ReasonInvalidPath: a path cannot be matched, and is left out.
	ReasonInvalidPath = "InvalidPath"
	// ReasonBackendRefused: a backend is of a kind that gets no requests.
	ReasonBackendRefused = "BackendRefused"
	// ReasonBackendNotFound: a Service or its port is not there.
	ReasonBackendNotFound = "BackendNotFound"
	// ReasonInvalidCertificate: a Secret has no certificate that can be presented.
	ReasonInvalidCertificate = "InvalidCertificate"
	// ReasonConflict: another object has the host and path, or the host's certificate.
	ReasonConflict = "Conflict"
)

// unavailable is what a share of an Ingress answers that no Service serves.
const unavailable = 503

// ingress is what an Ingress of ours comes to.
type ingress struct {
	object wire.Object
	// set is the IngressDaemonSet that serves it.
	set types.NamespacedName
	// wants are by host, empty for requests that no other host fits.
	wants        map[string][]hostPath
	certificates []certificateUse
}

// hostPath is what an Ingress wants of a host: requests to a path.
type hostPath struct {
	// rule is the index of its first path among all of the object's, in their order.
	rule     uint32
	pathType wire.PathType
	path     string
	// fallback says whether it is of a default backend: any other path goes before it.
	fallback bool
	shares   []share
}

// share is a part of a path's requests, and the backend that gets them, if there is one.
type share struct {
	wire.Share
	backend backendRef
}

// certificateUse is a certificate and for which hosts it is to be presented.
type certificateUse struct {
	secret types.NamespacedName
	hosts  []string
}

func (v *view) compileIngress(k key) *outcome {
	in := v.ingress(k.namespaced())
	if in == nil {
		return nil
	}
	c := value[class](v, key{fact: classUnit, name: v.classOf(in)})
	if c == nil {
		return &outcome{}
	}
	i := &ingressCompiler{view: v, in: in, ref: RefOf(in)}
	if message, differ := classesDiffer(in); differ {
		i.warn(ReasonClassesDiffer, "%s", message)
	}
	if c.problem+c.missing != "" {
		i.warn(ReasonInvalidParameters, "IngressClass %s: %s", v.classOf(in), c.problem+c.missing)
	}
	if c.problem != "" {
		return &i.outcome
	}
	i.result = ingress{object: objectOf(in), set: c.set, wants: map[string][]hostPath{}}
	i.weights = i.readWeights()
	i.takeRules()
	i.takeDefault()
	i.takeCertificates()
	i.joinHosts()
	i.value = &i.result
	return &i.outcome
}

// objectOf is where a resource comes from.
func objectOf(object metav1.Object) wire.Object {
	var created int64
	if t := object.GetCreationTimestamp(); !t.IsZero() {
		created = t.Unix()
	}
	ref := RefOf(object)
	return wire.Object{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, Created: created, Generation: object.GetGeneration()}
}

// ingressCompiler fills an outcome.
type ingressCompiler struct {
	*view
	in      *networkingv1.Ingress
	ref     Ref
	weights weights
	result  ingress
	outcome
}

func (i *ingressCompiler) warn(reason, format string, args ...any) {
	w := Event{i.ref, reason, fmt.Sprintf(format, args...)}
	for _, said := range i.warnings {
		if said == w {
			return
		}
	}
	i.warnings = append(i.warnings, w)
}

// takeRules wants each path of each rule: of several services of one path, one.
func (i *ingressCompiler) takeRules() {
	index := uint32(0)
	for _, rule := range i.in.Spec.Rules {
		host := normalHost(rule.Host)
		if rule.HTTP == nil {
			i.wantWhole(host, index)
			index++
			continue
		}
		var order []place
		paths := map[place][]indexed{}
		for _, p := range rule.HTTP.Paths {
			at, err := placeOf(host, p)
			if err != nil {
				i.warn(ReasonInvalidPath, "host %q: %v; this path is left out", rule.Host, err)
				index++
				continue
			}
			if paths[at] == nil {
				order = append(order, at)
			}
			paths[at] = append(paths[at], indexed{index, p.Backend})
			index++
		}
		for _, at := range order {
			i.want(at, paths[at])
		}
	}
}

// place is what no two can have.
type place struct {
	host     string
	pathType wire.PathType
	path     string
}

func (p place) String() string {
	host := p.host
	if host == "" {
		host = "*"
	}
	return fmt.Sprintf("%s%s (%s)", host, p.path, [...]string{wire.Prefix: "Prefix", wire.Exact: "Exact"}[p.pathType])
}

// indexed is a backend, and which path of the object it is of.
type indexed struct {
	index   uint32
	backend networkingv1.IngressBackend
}

// placeOf reads a path. ImplementationSpecific is Prefix, and may be empty.
func placeOf(host string, p networkingv1.HTTPIngressPath) (place, error) {
	if deref(p.PathType) == networkingv1.PathTypeExact {
		path, err := normalPath(p.Path)
		return place{host, wire.Exact, path}, err
	}
	path := p.Path
	if path == "" && deref(p.PathType) != networkingv1.PathTypePrefix {
		path = "/"
	}
	path, err := prefixPath(path)
	return place{host, wire.Prefix, path}, err
}

func (i *ingressCompiler) want(at place, backends []indexed) {
	for _, earlier := range i.result.wants[at.host] {
		if earlier.pathType == at.pathType && earlier.path == at.path && !earlier.fallback {
			i.warn(ReasonConflict, "%s stands in two rules: the first has it", at)
			return
		}
	}
	i.result.wants[at.host] = append(i.result.wants[at.host], hostPath{
		rule: backends[0].index, pathType: at.pathType, path: at.path, shares: i.divide(at, backends),
	})
}

// wantWhole wants a host of which the rule has no paths for the default backend.
func (i *ingressCompiler) wantWhole(host string, index uint32) {
	if i.in.Spec.DefaultBackend == nil {
		i.warn(ReasonInvalidPath, "host %q has no paths, and there is no default backend: this rule is left out", host)
		return
	}
	i.fallback(host, index)
}

// takeDefault wants what no rule of the class fits.
func (i *ingressCompiler) takeDefault() {
	if i.in.Spec.DefaultBackend != nil {
		i.fallback("", uint32(countPaths(i.in)))
	}
}

func (i *ingressCompiler) fallback(host string, index uint32) {
	s := i.share(*i.in.Spec.DefaultBackend)
	s.Weight = 1
	i.result.wants[host] = append(i.result.wants[host], hostPath{
		rule: index, pathType: wire.Prefix, path: "/", fallback: true, shares: []share{s},
	})
}

// countPaths is how many indices the rules take.
func countPaths(in *networkingv1.Ingress) (n int) {
	for _, rule := range in.Spec.Rules {
		if rule.HTTP == nil {
			n++
		} else {
			n += len(rule.HTTP.Paths)
		}
	}
	return n
}

// takeCertificates names the certificate of each Secret, of which the last good one is told. Until all were answered for, the
// Ingress stays as it was.
func (i *ingressCompiler) takeCertificates() {
	for _, entry := range i.in.Spec.TLS {
		if entry.SecretName == "" {
			continue
		}
		n := types.NamespacedName{Namespace: i.in.Namespace, Name: entry.SecretName}
		i.joins = append(i.joins, keyOf(wantedUnit, n))
		s := i.secret(n)
		if !s.answered {
			i.waits = true
			continue
		}
		if s.problem != "" {
			i.warn(ReasonInvalidCertificate, "Secret %s %s", n, s.explained())
		}
		use := certificateUse{secret: n}
		for _, host := range entry.Hosts {
			use.hosts = append(use.hosts, normalHost(host))
		}
		if unfit := s.unfit(use.hosts); len(unfit) > 0 {
			i.warn(ReasonInvalidCertificate, "the certificate of Secret %s is not for %s", n, quoted(unfit))
		}
		i.result.certificates = append(i.result.certificates, use)
	}
	if len(i.result.certificates) > 0 {
		i.joins = append(i.joins, listenersOf(i.result.set))
	}
}

// joinHosts lets each host decide who has what of it.
func (i *ingressCompiler) joinHosts() {
	for host := range i.result.wants {
		i.joins = append(i.joins, key{fact: hostUnit, name: host}.in(i.result.set))
	}
}

// share is the part of a backend, without a weight.
func (i *ingressCompiler) share(b networkingv1.IngressBackend) share {
	if b.Service == nil {
		kind := "nothing"
		if b.Resource != nil {
			kind = strings.TrimSpace(deref(b.Resource.APIGroup) + " " + b.Resource.Kind + " " + b.Resource.Name)
		}
		i.warn(ReasonBackendRefused, "a backend names %s: only Services get requests, its share answers %d", kind, unavailable)
		return share{Share: wire.Share{Status: unavailable}}
	}
	n := types.NamespacedName{Namespace: i.in.Namespace, Name: b.Service.Name}
	ref, problem := i.resolve(n, portRef{name: b.Service.Port.Name, number: b.Service.Port.Number})
	if problem != nil {
		i.warn(problem.ingressReason(), "%s: its share answers %d", problem.message, unavailable)
		return share{Share: wire.Share{Status: unavailable}}
	}
	return share{wire.Share{Backend: ref.String()}, ref}
}
