package message

import (
	"bytes"
	"errors"
	"io"
	"math"
)

// Bounds of the chunked coding.
const (
	// maxChunkLine bounds a chunk's size and extensions.
	maxChunkLine = 1 << 10
	// maxExcess bounds what a body has beside its data, as net/http does: per chunk, 16 bytes and twice
	// its size are not counted.
	maxExcess = 16 << 10
	// maxTrailer bounds a trailer's bytes.
	maxTrailer = 8 << 10
)

// Framing is how the end of a body is found (RFC 9112, 6.3).
type Framing uint8

// Framings.
const (
	None Framing = iota
	Sized
	Chunked
	UntilClose
)

// Body is that of a request or response. Begin makes it ready, also one of before.
type Body struct {
	in      *Reader
	framing Framing
	// left are bytes that are to come: of a sized body, or of the chunk.
	left int64
	// within says whether a chunk has begun whose end was not read.
	within bool
	excess int64
	// trailer are its fields, once it has been read.
	trailer []Field
	// err is how reading ended: io.EOF at the body's end.
	err error
}

// Begin expects a body; length is that of one that is Sized.
func (b *Body) Begin(in *Reader, f Framing, length int64) {
	*b = Body{in: in, framing: f, trailer: b.trailer[:0]}
	if f == Sized {
		b.left = length
	}
	if f == None || f == Sized && length == 0 {
		b.err = io.EOF
	}
}

// End lets go of what it reads from, and of the trailer. Nothing is read any more.
func (b *Body) End() {
	b.in = nil
	clear(b.trailer)
}

// Framing is that of Begin.
func (b *Body) Framing() Framing { return b.framing }

// Complete reports whether all of it has been read.
func (b *Body) Complete() bool { return b.err == io.EOF }

// Trailer are the fields after it, once Read has given io.EOF, until the next Begin.
func (b *Body) Trailer() []Field { return b.trailer }

// Read gives io.EOF with the last byte where that is known to be the last. It does not wait while it
// has something to give.
func (b *Body) Read(p []byte) (n int, err error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	switch b.framing {
	case Chunked:
		n, b.err = b.readChunks(p)
	case Sized:
		n, b.err = b.readPart(p)
		if b.err == nil && b.left == 0 {
			b.err = io.EOF
		}
	default:
		n, b.err = b.in.Read(p)
	}
	return n, b.err
}

// readPart reads of what is left. Its end before that is an error.
func (b *Body) readPart(p []byte) (int, error) {
	n, err := b.in.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, Unexpected(err)
}

// Unexpected is an end that comes before its time.
func Unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (b *Body) readChunks(p []byte) (n int, err error) {
	for n < len(p) {
		if b.left > 0 {
			if n > 0 && len(b.in.Buffered()) == 0 {
				return n, nil
			}
			part, err := b.readPart(p[n:])
			if n += part; err != nil {
				return n, err
			}
			continue
		}
		if n > 0 && !b.nextIsHere() {
			return n, nil
		}
		if err := b.next(); err != nil {
			return n, err
		}
	}
	if b.left == 0 && b.nextIsHere() {
		return n, b.next()
	}
	return n, nil
}

// nextIsHere reports whether the line that begins the next chunk has been read, and after the last chunk
// all the rest.
func (b *Body) nextIsHere() bool {
	there := b.in.Buffered()
	if b.within {
		there = there[min(2, len(there)):]
	}
	line, _, whole := bytes.Cut(there, []byte("\n"))
	if whole && isLast(line) {
		return bytes.Contains(there, []byte("\r\n\r\n"))
	}
	return whole
}

// isLast reports whether a line begins a chunk without data, and so the last one.
func isLast(line []byte) bool {
	rest := bytes.TrimLeft(line, "0")
	return len(rest) < len(line) && (len(rest) == 0 || hexDigits[rest[0]] == noDigit)
}

// Ready reports whether there is something to give: data, or what comes after the last chunk. The end of a
// chunk is none, nor is a size without data.
func (b *Body) Ready() bool {
	there := b.in.Buffered()
	if b.framing != Chunked || b.left > 0 || b.err != nil {
		return len(there) > 0 || b.err != nil
	}
	if b.within {
		there = there[min(2, len(there)):]
	}
	lf := bytes.IndexByte(there, '\n')
	return lf >= 0 && lf+1 < len(there)
}

// next reads what ends a chunk and begins the next one, or all that comes after the last: then it
// gives io.EOF.
func (b *Body) next() error {
	if b.within {
		// What ends a chunk is an empty line; anything else is longer than the chunk's size.
		if _, err := b.in.line(0); err != nil {
			return Unexpected(err)
		}
	}
	line, err := b.in.line(maxChunkLine)
	if err != nil {
		return Unexpected(err)
	}
	size, err := parseChunk(line)
	if err != nil {
		return err
	}
	b.excess = max(0, b.excess+int64(len(line))+2-16-2*min(size, math.MaxInt64/4))
	if b.excess > maxExcess {
		return Malformed("the chunked coding has too much beside its data")
	}
	if b.left, b.within = size, true; size > 0 {
		return nil
	}
	return b.readTrailer()
}

// parseChunk reads a chunk's size; extensions may follow it, and are ignored.
func parseChunk(line []byte) (size int64, err error) {
	digits, extensions, _ := bytes.Cut(line, []byte(";"))
	if len(digits) == 0 || len(digits) > 16 || !IsText(string(extensions)) {
		return 0, Malformed("a chunk's size is malformed")
	}
	for _, c := range digits {
		digit := hexDigits[c]
		if digit == noDigit || size > math.MaxInt64>>4 {
			return 0, Malformed("a chunk's size is malformed")
		}
		size = size<<4 | int64(digit)
	}
	return size, nil
}

const noDigit = 0xff

var hexDigits = func() (values [256]byte) {
	for i := range values {
		values[i] = noDigit
	}
	for i, c := range []byte("0123456789abcdef") {
		values[c], values[bytes.ToUpper([]byte{c})[0]] = byte(i), byte(i)
	}
	return values
}()

// readTrailer reads the fields after the last chunk, and gives io.EOF.
func (b *Body) readTrailer() error {
	for total := 0; ; {
		line, err := b.in.line(maxTrailer)
		if err != nil {
			return Unexpected(err)
		}
		if len(line) == 0 {
			return io.EOF
		}
		if total += len(line); total > maxTrailer {
			return Malformed("the trailer is too long")
		}
		h, err := ParseField(string(line))
		if err != nil {
			return err
		}
		if IsFraming(h.Name) {
			return Malformed("the trailer has a field of the framing")
		}
		b.trailer = append(b.trailer, h)
	}
}

// IsFraming reports whether a field, by its canonical name, is about the framing or where a message goes, and
// has no place in a trailer (RFC 9110, 6.5.1).
func IsFraming(name string) bool {
	switch name {
	case "Content-Length", "Transfer-Encoding", "Trailer", "Host", "Connection", "Te", "Upgrade":
		return true
	}
	return false
}
