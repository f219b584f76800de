package routing

import (
	"fmt"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// ReasonInvalidAnnotation: an annotation has a wrong value.
const ReasonInvalidAnnotation = "InvalidAnnotation"

// readWeights reads the annotation that gives services of one path their parts.
func (i *ingressCompiler) readWeights() weights {
	text, annotated := i.in.Annotations[AnnotationServiceWeights]
	if !annotated {
		return nil
	}
	w, err := parseWeights(text)
	if err != nil {
		i.warn(ReasonInvalidAnnotation, "annotation %s: %v; allowed are lines such as \"cheddar: 50%%\", together at most 100%%; without it the first service of a path gets all", AnnotationServiceWeights, err)
		return nil
	}
	return w
}

// divide shares a path's requests among its services: by the annotation, or all to the first.
func (i *ingressCompiler) divide(at place, backends []indexed) []share {
	backends = i.distinct(at, backends)
	if len(backends) > 1 && i.weights == nil {
		i.warn(ReasonConflict, "%s has several services, and no annotation %s that gives them weights: %q, the first, gets all", at, AnnotationServiceWeights, serviceOf(backends[0]))
		backends = backends[:1]
	}
	if len(backends) == 1 {
		s := i.share(backends[0].backend)
		s.Weight = 1
		return []share{s}
	}
	return i.weigh(at, backends)
}

// distinct leaves out services that a path names twice.
func (i *ingressCompiler) distinct(at place, backends []indexed) (out []indexed) {
	seen := map[string]bool{}
	for _, b := range backends {
		name := serviceOf(b)
		if name != "" && seen[name] {
			i.warn(ReasonConflict, "%s names service %q twice: the first counts", at, name)
			continue
		}
		seen[name] = true
		out = append(out, b)
	}
	return out
}

func serviceOf(b indexed) string {
	if b.backend.Service == nil {
		return ""
	}
	return b.backend.Service.Name
}

// weigh gives each service of a path its weight. Services that the annotation does not name share what
// is left of 100%. A weight of a name that no path has is answered by 503: it was meant for a service,
// and nobody else was to get it.
func (i *ingressCompiler) weigh(at place, backends []indexed) (out []share) {
	var unweighted []string
	left := uint32(hundredPercent)
	for _, b := range backends {
		if w, named := i.weights[serviceOf(b)]; named {
			left -= w
		} else {
			unweighted = append(unweighted, serviceOf(b))
		}
	}
	lost := i.lost(at, unweighted, &left)
	for _, b := range backends {
		s := i.share(b.backend)
		w, named := i.weights[serviceOf(b)]
		if !named {
			w = left / uint32(len(unweighted))
		}
		s.Weight = w
		out = append(out, s)
	}
	if lost > 0 {
		out = append(out, share{Share: wire.Share{Weight: lost, Status: unavailable}})
	}
	if !slices.ContainsFunc(out, func(s share) bool { return s.Weight > 0 }) {
		i.warn(ReasonInvalidAnnotation, "annotation %s gives 0%% to each service of %s: its requests answer %d", AnnotationServiceWeights, at, unavailable)
	}
	return reduce(out)
}

// lost is the weight of names that no path has, where a service of this path may be meant; it says both
// spellings.
func (i *ingressCompiler) lost(at place, unweighted []string, left *uint32) (lost uint32) {
	if len(unweighted) == 0 {
		return 0
	}
	named := i.namedServices()
	var unknown []string
	for _, name := range sortedKeys(i.weights) {
		if !named[name] {
			unknown = append(unknown, name)
			lost += i.weights[name]
		}
	}
	if lost == 0 {
		return 0
	}
	*left -= min(*left, lost)
	i.warn(ReasonInvalidAnnotation, "annotation %s gives %s to %s, which no path names; %s names %s without a weight: %s of its requests answer %d",
		AnnotationServiceWeights, percent(lost), quoted(unknown), at, quoted(unweighted), percent(lost), unavailable)
	return lost
}

// namedServices are those of all paths of the object.
func (i *ingressCompiler) namedServices() map[string]bool {
	named := map[string]bool{}
	for _, rule := range i.in.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for _, p := range rule.HTTP.Paths {
			if p.Backend.Service != nil {
				named[p.Backend.Service.Name] = true
			}
		}
	}
	return named
}

// reduce writes whole percents as such.
func reduce(shares []share) []share {
	whole := !slices.ContainsFunc(shares, func(s share) bool { return s.Weight%onePercent != 0 })
	if whole {
		for i := range shares {
			shares[i].Weight /= onePercent
		}
	}
	return shares
}

func percent(w uint32) string {
	if w%onePercent == 0 {
		return fmt.Sprintf("%d%%", w/onePercent)
	}
	return fmt.Sprintf("%g%%", float64(w)/onePercent)
}
