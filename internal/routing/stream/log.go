// Package stream decides what each proxy is owed of what the controller tells: it has a log of resources
// as they change, and a cursor in it for each stream.
//
// Its files, in the order in which to open them:
//
//   - log.go: Log, the resources of one IngressDaemonSet, in the order in which they changed.
//   - share.go: for what there is room in it, and who has how much of that.
//   - entry.go: one of them, with as much of its past as streams that lag need.
//   - marks.go: where streams are.
//   - cursor.go: Cursor, one stream: what it is owed, and what it made of it.
//
// A resource is encoded when it is committed, once for all streams: messages are put together of shared
// bytes. A stream has one message under way at a time. What changes meanwhile is merged: the next message
// leads from what the last one said to what holds then, whatever was between.
//
// The invariant: who applied a stream's messages up to a position was told, of each name, what the log
// held at that position, and nothing that he was told before.
package stream

import (
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// maxHeld bounds the encoded bytes of all that a log holds. A name stands twice in what it names, so that
// a message with all of it, and the names of as much that is gone, has less than wire.MaxMessage.
const maxHeld = 40 << 20

// Log is what the proxies of one IngressDaemonSet are to hold, in the order in which it changed. It is
// not safe for concurrent use, nor are its cursors beside it.
type Log struct {
	// head is the position after the last commit, 0 before the first.
	head    uint64
	entries map[string]*entry
	// order are entries by the position at which they changed. A slot is void where its entry has changed
	// since.
	order []slot
	// gone are those of order whose entry was removed. It stays as long as a stream is before it.
	gone  []slot
	marks marks
	// held is the size of all pieces, limit its bound, shares are that of each namespace's.
	held, limit int
	shares      map[string]int
}

// slot is a place in the log.
type slot struct {
	at uint64
	*entry
}

func (s slot) void() bool { return s.entry.at != s.at }

// New is a log before its first commit.
func New() *Log {
	return &Log{entries: map[string]*entry{}, limit: maxHeld, shares: map[string]int{}}
}

// Commit takes changes as one transaction: names (wire.NameOf) of what is gone, then what is new or
// changed. The first says that the log is complete; before it no stream is owed anything. It gives the
// position at which a stream has them all, which is that of before where nothing is another. A resource
// that cannot be encoded or does not fit is refused alone: what was there under its name stays, and it is
// not tried again.
func (l *Log) Commit(set []wire.Resource, removed []string) (position uint64, refused []wire.Refusal) {
	at, changed := l.head+1, l.head == 0
	for _, name := range removed {
		changed = l.put(name, "", state{at: at}, nil) || changed
	}
	for _, r := range byNeed(set) {
		name, namespace := wire.NameOf(r), namespaceOf(r)
		version, piece, err := encode(name, r)
		if err == nil {
			err = l.fits(name, namespace, piece)
		}
		if err != nil {
			refused = append(refused, wire.Refusal{Name: name, Reason: err.Error()})
			continue
		}
		changed = l.put(name, namespace, state{at, version}, piece) || changed
	}
	if changed {
		l.head = at
		l.tidy()
	}
	return l.head, refused
}

// encode gives a resource's version, and its piece of a message. Messages of protobuf are put together by
// putting their bytes together, so that a response with nothing else is that.
func encode(name string, r wire.Resource) (version string, piece []byte, err error) {
	value, err := wire.Encode(r)
	if err != nil {
		return "", nil, err
	}
	version = wire.Version(value)
	piece, err = wire.Response{Resources: []wire.Delivery{{Name: name, Version: version, TypeURL: wire.TypeURL, Value: value}}}.Encode()
	return version, piece, err
}

// put gives a name another state, and says whether it is another.
func (l *Log) put(name, namespace string, next state, piece []byte) (changed bool) {
	e := l.entries[name]
	switch {
	case e == nil && next.version == "", e != nil && e.version == next.version:
		return false
	case e == nil:
		e = &entry{name: name}
		l.entries[name] = e
	}
	l.hold(e.namespace, -len(e.piece))
	l.hold(namespace, len(piece))
	e.namespace = namespace
	if e.at != next.at {
		l.order = append(l.order, slot{next.at, e})
	}
	e.become(next, piece, l.marks)
	if next.version == "" {
		l.gone = append(l.gone, slot{next.at, e})
	}
	return true
}

// tidy lets go what no stream will ask for any more.
func (l *Log) tidy() {
	for len(l.gone) > 0 && !l.marks.any(0, l.gone[0].at) {
		if s := l.gone[0]; !s.void() && s.version == "" {
			delete(l.entries, s.name)
		}
		l.gone[0] = slot{}
		l.gone = l.gone[1:]
	}
	if len(l.order) <= 2*len(l.entries)+64 {
		return
	}
	kept := make([]slot, 0, len(l.entries))
	for _, s := range l.order {
		if !s.void() && l.entries[s.name] == s.entry {
			kept = append(kept, s)
		}
	}
	l.order = kept
}
