package holdings

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// Snapshot is what a proxy held, as it stands in a file.
type Snapshot struct {
	// Sequence is larger in a later one.
	Sequence uint64
	// Held is what All gave.
	Held wire.Response
}

// A snapshot begins with what it is, the sum of all that follows, and its sequence.
const (
	snapshotOf    = "ids proxy snapshot 1\n"
	sequenceAt    = len(snapshotOf) + sha256.Size
	snapshotBytes = sequenceAt + 8
)

// MaxSnapshot bounds the bytes of a snapshot, as they are written and as they are read.
const MaxSnapshot = snapshotBytes + wire.MaxMessage

// Why bytes are no snapshot.
var (
	errNoSnapshot = errors.New("it does not begin as a snapshot does")
	errSum        = errors.New("its SHA-256 is of other bytes: it was not written to its end, or changed since")
)

// Encode gives the bytes of a snapshot. It fails where what is held is no message, see
// wire.Response.Encode.
func (s Snapshot) Encode() ([]byte, error) {
	b, err := s.Held.Append(binary.BigEndian.AppendUint64(make([]byte, sequenceAt), s.Sequence))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b[sequenceAt:])
	copy(b[copy(b, snapshotOf):], sum[:])
	return b, nil
}

// DecodeSnapshot reads what Encode wrote, in this version or another. What is held is part of b. Anything
// else is an error, that is: bytes that were cut off, changed, or are more than MaxSnapshot.
func DecodeSnapshot(b []byte) (Snapshot, error) {
	if len(b) > MaxSnapshot {
		return Snapshot{}, fmt.Errorf("a snapshot of more than %d bytes", MaxSnapshot)
	}
	if len(b) < snapshotBytes || !bytes.HasPrefix(b, []byte(snapshotOf)) {
		return Snapshot{}, errNoSnapshot
	}
	if sum := sha256.Sum256(b[sequenceAt:]); !bytes.Equal(sum[:], b[len(snapshotOf):sequenceAt]) {
		return Snapshot{}, errSum
	}
	held, err := wire.DecodeResponse(b[snapshotBytes:])
	if err != nil {
		return Snapshot{}, err
	}
	return Snapshot{binary.BigEndian.Uint64(b[sequenceAt:]), held}, nil
}
