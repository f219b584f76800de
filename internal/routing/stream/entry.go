package stream

// entry is a name in the log.
type entry struct {
	// namespace is the one that has it in its share.
	name, namespace string
	// state is the present one, before are those of the past in which a stream was when they passed.
	state
	before []state
	// piece is its part of every message that tells of the present state.
	piece []byte
}

// state is what an entry is from a position on. Without a version it is not there.
type state struct {
	at      uint64
	version string
}

// become gives the entry its next state. Of the past it keeps what a stream was told last: so its length
// is bound by the number of streams that lag, however often the entry changes.
func (e *entry) become(next state, piece []byte, m marks) {
	past := append(e.before, e.state)
	kept := past[:0]
	for i, s := range past {
		end := next.at
		if i+1 < len(past) {
			end = past[i+1].at
		}
		// At its beginning an entry was not there, whether that is kept or not.
		if (s.version != "" || len(kept) > 0) && m.any(s.at, end) {
			kept = append(kept, s)
		}
	}
	if len(kept) == 0 {
		kept = nil
	}
	e.before, e.state, e.piece = kept, next, piece
}

// toldAt is the version of which a stream was told that is at that position, empty for none.
func (e *entry) toldAt(position uint64) string {
	if e.at <= position {
		return e.version
	}
	for i := len(e.before) - 1; i >= 0; i-- {
		if e.before[i].at <= position {
			return e.before[i].version
		}
	}
	return ""
}
