package stream

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// byNeed is in the order in which there is room, where there is not enough for all: without listeners nothing is
// served. Certificates are the longest by far, and what has lost its certificate is served without.
func byNeed(set []wire.Resource) []wire.Resource {
	turn := func(r wire.Resource) int {
		switch r.Kind() {
		case wire.KindListener:
			return 0
		case wire.KindCertificate:
			return 2
		}
		return 1
	}
	set = slices.Clone(set)
	slices.SortStableFunc(set, func(a, b wire.Resource) int { return cmp.Compare(turn(a), turn(b)) })
	return set
}

// namespaceOf is the namespace of which a resource has its share. The listeners of an IngressDaemonSet, which serve
// all, and what has no namespace are nobody's.
func namespaceOf(r wire.Resource) string {
	switch {
	case r.Route != nil:
		return r.Route.Object.Namespace
	case r.Listener != nil && r.Listener.Object.Kind != "IngressDaemonSet":
		return r.Listener.Object.Namespace
	case r.Listener != nil:
		return ""
	}
	namespace, _, is := strings.Cut(r.Name, "/")
	if !is {
		return ""
	}
	return namespace
}

// fits reports why there is no room for an entry's next piece. There is always for one that is no longer than the last.
//
// A namespace may hold as much as it leaves: alone half of the log, and each that comes after others half of what
// these left. What it holds is not taken from it again: proxies serve that.
func (l *Log) fits(name, namespace string, piece []byte) error {
	grows := len(piece)
	if e := l.entries[name]; e != nil {
		grows -= len(e.piece)
	}
	free := l.limit - l.held - grows
	switch {
	case grows <= 0:
		return nil
	case free < 0:
		return fmt.Errorf("all that a proxy is told would have %d bytes, more than %d", l.held+grows, l.limit)
	case namespace != "" && l.shares[namespace]+grows > free:
		return fmt.Errorf("what a proxy is told of namespace %s would have %d bytes, more than the %d that would be left for others",
			namespace, l.shares[namespace]+grows, free)
	}
	return nil
}

// hold notes that an entry has so many bytes more than it had.
func (l *Log) hold(namespace string, more int) {
	l.held += more
	if l.shares[namespace] += more; l.shares[namespace] == 0 {
		delete(l.shares, namespace)
	}
}
