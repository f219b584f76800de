package stream

import (
	"maps"
	"slices"
	"strconv"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// Cursor is one stream's place in a Log. Close ends it.
type Cursor struct {
	log *Log
	// said are the versions that the proxy named when the stream began, by name.
	said map[string]string
	// begun says whether it was sent a message, at is the position of the last one, and underWay whether
	// that was not answered yet.
	begun, underWay bool
	at              uint64
}

// Message is a transaction on its way to one stream.
type Message struct {
	// Position is that of the log of which it tells.
	Position uint64
	// Parts are, one after the other, the bytes of a wire.Response. Others share them: they must not be
	// changed.
	Parts [][]byte
}

// Acknowledgement is what a proxy made of all messages up to a position.
type Acknowledgement struct {
	Position uint64
	// Refused is all that it cannot use now, of this message or of one before.
	Refused []wire.Refusal
}

// Open begins a stream to a proxy that was told these versions before, by whichever controller.
func (l *Log) Open(versions map[string]string) *Cursor {
	return &Cursor{log: l, said: versions}
}

// Next is the message that the stream is owed now, if it is owed one: none while one is under way. The
// first is owed as soon as the log is complete, also where it has nothing to tell. The message counts as
// sent: should it be lost, the stream must end. An error says that it would be too long, which needs a
// proxy that names more than it can have been told.
func (c *Cursor) Next() (m Message, owed bool, err error) {
	head := c.log.head
	if c.underWay || head == 0 || c.begun && c.at == head {
		return Message{}, false, nil
	}
	pieces, removed := c.owed()
	position := strconv.FormatUint(head, 10)
	before, err := wire.Response{Position: position}.Encode()
	if err != nil {
		return Message{}, false, err
	}
	after, err := wire.Response{TypeURL: wire.TypeURL, Nonce: position, Removed: removed}.Encode()
	if err != nil {
		return Message{}, false, err
	}
	c.leave()
	c.log.marks.enter(head)
	c.log.tidy()
	c.begun, c.underWay, c.at = true, true, head
	return Message{head, slices.Concat([][]byte{before}, pieces, [][]byte{after})}, true, nil
}

// owed is the difference between what the proxy was told and what the log holds.
func (c *Cursor) owed() (pieces [][]byte, removed []string) {
	if !c.begun {
		return c.owedFirst()
	}
	order := c.log.order
	from, _ := slices.BinarySearchFunc(order, c.at, func(s slot, at uint64) int {
		if s.at <= at {
			return -1
		}
		return 1
	})
	for _, s := range order[from:] {
		switch told := s.toldAt(c.at); {
		case s.void() || told == s.version:
		case s.version == "":
			removed = append(removed, s.name)
		default:
			pieces = append(pieces, s.piece)
		}
	}
	return pieces, removed
}

// owedFirst is owed where the proxy itself has said what it was told.
func (c *Cursor) owedFirst() (pieces [][]byte, removed []string) {
	for _, s := range c.log.order {
		if s.void() || s.version == "" {
			continue
		}
		if c.said[s.name] != s.version {
			pieces = append(pieces, s.piece)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.said)) {
		if e := c.log.entries[name]; e == nil || e.version == "" {
			removed = append(removed, name)
		}
	}
	c.said = nil
	return pieces, removed
}

// Answer takes what the proxy says. Only an answer to the last message is one: it may be answered again, when something
// else can be used of what was told.
func (c *Cursor) Answer(r wire.Request) (a Acknowledgement, is bool) {
	if !c.begun || r.Nonce != strconv.FormatUint(c.at, 10) {
		return Acknowledgement{}, false
	}
	c.underWay = false
	return Acknowledgement{c.at, r.Error.Refusals()}, true
}

// Close forgets the stream.
func (c *Cursor) Close() {
	c.leave()
	c.begun, c.underWay = false, true
	c.log.tidy()
}

func (c *Cursor) leave() {
	if c.begun {
		c.log.marks.leave(c.at)
	}
}
