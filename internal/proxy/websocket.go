package proxy

import (
	"encoding/binary"
	"math/rand/v2"
)

// frames follows the frames of WebSocket in one direction (RFC 6455, 5.2), to know where one ends: a frame
// of ours may stand there.
type frames struct {
	// head has what has come of a frame's head, left is what is to come of its payload.
	head [14]byte
	have int
	left uint64
}

// between reports whether no frame has begun that has not ended.
func (f *frames) between() bool { return f.have == 0 && f.left == 0 }

// next follows p to the end of a frame, or to its own, and gives how much that was.
func (f *frames) next(p []byte) (n int) {
	for n < len(p) {
		if f.left == 0 {
			f.head[f.have] = p[n]
			f.have++
			n++
			if f.have < f.size() {
				continue
			}
			f.left, f.have = f.payload(), 0
		}
		part := min(f.left, uint64(len(p)-n))
		f.left -= part
		if n += int(part); f.left == 0 {
			return n
		}
	}
	return n
}

// size is that of the head, as far as can be told.
func (f *frames) size() int {
	if f.have < 2 {
		return 2
	}
	size := 2
	switch f.head[1] & 0x7f {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if f.head[1]&0x80 != 0 {
		size += 4
	}
	return size
}

// payload is the length of what follows a whole head.
func (f *frames) payload() uint64 {
	switch short := f.head[1] & 0x7f; short {
	case 126:
		return uint64(binary.BigEndian.Uint16(f.head[2:]))
	case 127:
		return binary.BigEndian.Uint64(f.head[2:])
	default:
		return uint64(short)
	}
}

// goingAway is a frame that closes with 1001 (RFC 6455, 7.4.1), masked as those of clients are.
func goingAway(masked bool) []byte {
	const code = 1001
	if !masked {
		return binary.BigEndian.AppendUint16([]byte{0x88, 2}, code)
	}
	frame := binary.BigEndian.AppendUint32([]byte{0x88, 0x80 | 2}, rand.Uint32())
	return append(frame, frame[2]^code>>8, frame[3]^code&0xff)
}
