package message

import (
	"bytes"
	"io"
	"sync"
)

// bufferSize is that of what is read at once, where it does not go straight to the caller.
const bufferSize = 8 << 10

// buffers are lent to who reads, and given back when an exchange ends.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// Reader reads heads, lines and bytes of Src, with a buffer that it borrows.
type Reader struct {
	Src      io.Reader
	borrowed *[bufferSize]byte
	// buf[r:w] has been read and not been consumed. It grows while a head does not fit.
	buf  []byte
	r, w int
}

// Buffered are the bytes that were read and not consumed. They are valid until the next read.
func (in *Reader) Buffered() []byte { return in.buf[in.r:in.w] }

// Release gives the buffer back, and forgets what is in it.
func (in *Reader) Release() {
	if in.borrowed != nil {
		buffers.Put(in.borrowed)
	}
	in.borrowed, in.buf, in.r, in.w = nil, nil, 0, 0
}

// Lend is room for what somebody else reads, if nothing is buffered; Got says how much that was.
func (in *Reader) Lend() []byte {
	if in.buf == nil {
		in.borrowed = buffers.Get().(*[bufferSize]byte)
		in.buf = in.borrowed[:]
	}
	in.r, in.w = 0, 0
	return in.buf
}

// Got is that so many bytes were read to where Lend said.
func (in *Reader) Got(n int) { in.w = n }

// Fill reads once, and returns an error only if nothing came.
func (in *Reader) Fill() error {
	switch {
	case in.buf == nil:
		in.Lend()
	case in.r == in.w:
		in.r, in.w = 0, 0
	case in.w == len(in.buf) && in.r > 0:
		in.w = copy(in.buf, in.buf[in.r:in.w])
		in.r = 0
	case in.w == len(in.buf):
		in.buf = append(in.buf, make([]byte, len(in.buf))...)
	}
	n, err := in.Src.Read(in.buf[in.w:])
	in.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// Read reads what there is, straight from the source if nothing is in the buffer and p is large.
func (in *Reader) Read(p []byte) (int, error) {
	if in.r == in.w {
		if len(p) >= bufferSize/2 {
			return in.Src.Read(p)
		}
		if err := in.Fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.buf[in.r:in.w])
	in.r += n
	return n, nil
}

// Head is the next head, up to and with its empty line; it is valid until the next read. What cannot become one, as
// begins says of its first bytes, is not waited for. Its error is Malformed, ErrTooLong, or that of Src.
func (in *Reader) Head(limit int, begins func([]byte) error) ([]byte, error) {
	for seen := 0; ; {
		there := in.Buffered()
		if err := begins(there); err != nil {
			return nil, err
		}
		if end := headEnd(there, max(0, seen-2)); end > 0 && end <= limit {
			in.r += end
			return there[:end], nil
		}
		if seen = len(there); seen >= limit {
			return nil, ErrTooLong
		}
		if err := in.Fill(); err != nil {
			return nil, err
		}
	}
}

// headEnd is the length of the head that b begins with, 0 where its end has not come. An LF ends a line
// with or without a CR before it (RFC 9112, 2.2). No line ends before from.
func headEnd(b []byte, from int) int {
	for {
		lf := bytes.IndexByte(b[from:], '\n')
		if lf < 0 {
			return 0
		}
		from += lf + 1
		switch rest := b[from:]; {
		case len(rest) > 0 && rest[0] == '\n':
			return from + 1
		case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
			return from + 2
		}
	}
}

// line is the next line, which ends with CRLF and has no other CR, without that; it is valid until the
// next read.
func (in *Reader) line(limit int) ([]byte, error) {
	for {
		there := in.buf[in.r:in.w]
		lf := bytes.IndexByte(there, '\n')
		if lf > limit+1 || lf < 0 && len(there) > limit+1 {
			return nil, Malformed("a line is too long")
		}
		if lf >= 0 {
			in.r += lf + 1
			if bytes.IndexByte(there[:lf], '\r') != lf-1 || lf == 0 {
				return nil, Malformed("a line does not end with CRLF")
			}
			return there[:lf-1], nil
		}
		if err := in.Fill(); err != nil {
			return nil, err
		}
	}
}
