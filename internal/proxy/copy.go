package proxy

import "sync"

// copySize is how much is read and written at once, firstCopy until that much comes at once.
const (
	copySize  = 32 << 10
	firstCopy = 8 << 10
)

var (
	copies      = sync.Pool{New: func() any { return new([copySize]byte) }}
	firstCopies = sync.Pool{New: func() any { return new([firstCopy]byte) }}
)

// copyBuffer is what is read into: a small piece until that was filled, because many answers and tunnels say little, and
// wait for long.
type copyBuffer struct {
	small *[firstCopy]byte
	large *[copySize]byte
}

func newCopyBuffer() copyBuffer { return copyBuffer{small: firstCopies.Get().(*[firstCopy]byte)} }

func (b *copyBuffer) bytes() []byte {
	if b.large != nil {
		return b.large[:]
	}
	return b.small[:]
}

// grow takes a large piece where so much was read that the small one was filled.
func (b *copyBuffer) grow(read int) {
	if read == firstCopy && b.large == nil {
		b.large = copies.Get().(*[copySize]byte)
	}
}

func (b *copyBuffer) put() {
	firstCopies.Put(b.small)
	if b.large != nil {
		copies.Put(b.large)
	}
}
