package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// wireType says how a field's value is written (https://protobuf.dev/programming-guides/encoding/).
// Groups, which are deprecated there, are refused.
type wireType uint8

const (
	typeVarint  wireType = 0
	typeFixed64 wireType = 1
	typeBytes   wireType = 2
	typeFixed32 wireType = 5
)

// maxField is the largest number of a field, by the same document.
const maxField = 1<<29 - 1

// Why bytes are not read.
var (
	errTruncated = errors.New("it ends within a field")
	errOverlong  = errors.New("a varint is longer than its value needs, or than 64 bits")
	errField     = errors.New("a field's number is 0 or too large")
	errWireType  = errors.New("a field is a group, or of a type that is not known")
	errType      = errors.New("a field is of another type")
	errUTF8      = errors.New("a text is not UTF-8")
)

// codec goes through the fields of a message in ascending order, either way: a writer appends those
// that are not zero, a reader takes those that are there. What describes a message (fields.go) so
// describes writing and reading at once. After an error it does nothing.
type codec struct {
	reading bool
	// buf is what was written.
	buf []byte
	// left is what is left of the message that is read. Texts are parts of it, so that a message of many texts is one
	// piece of memory.
	left string
	// last is the number of the field that was read last, single whether it may be there only once.
	last   uint64
	single bool
	err    error
}

func (c *codec) fail(err error) {
	if c.err == nil {
		c.err, c.buf, c.left = err, nil, ""
	}
}

// next reports whether the message that is read has field n, of that type, at this place; it is then read
// up to its value. Fields that are not known are skipped on the way.
func (c *codec) next(n uint64, want wireType, single bool) bool {
	for c.err == nil && len(c.left) > 0 {
		number, typ, size, err := readTag(c.left)
		switch {
		case err != nil:
			c.fail(err)
			return false
		case number < c.last || number == c.last && c.single:
			c.fail(fmt.Errorf("field %d is there twice or after a larger one", number))
			return false
		case number > n:
			return false
		}
		c.left = c.left[size:]
		if number == n {
			if typ != want {
				c.fail(fmt.Errorf("field %d is of type %d instead of %d", n, typ, want))
				return false
			}
			c.last, c.single = n, single
			return true
		}
		c.last, c.single = number, false
		c.skip(typ)
	}
	return false
}

func (c *codec) skip(typ wireType) {
	rest, err := skipValue(c.left, typ)
	if err != nil {
		c.fail(err)
		return
	}
	c.left = rest
}

// end reads the fields after those that are known.
func (c *codec) end() { c.next(math.MaxUint64, typeVarint, false) }

func (c *codec) tag(n uint64, typ wireType) {
	c.buf = binary.AppendUvarint(c.buf, n<<3|uint64(typ))
}

// number is a field of a whole number of at most the given value.
func (c *codec) number(n, value, most uint64) uint64 {
	if !c.reading {
		if value != 0 {
			c.tag(n, typeVarint)
			c.buf = binary.AppendUvarint(c.buf, value)
		}
		return value
	}
	if !c.next(n, typeVarint, true) {
		return 0
	}
	value, size, err := readVarint(c.left)
	switch {
	case err != nil:
		c.fail(err)
		return 0
	case value == 0 || value > most:
		c.fail(fmt.Errorf("field %d is %d: it may be from 1 to %d", n, value, most))
		return 0
	}
	c.left = c.left[size:]
	return value
}

// chunk is the next value of field n, as long as there is one.
func (c *codec) chunk(n uint64, single bool) (value string, found bool) {
	if !c.next(n, typeBytes, single) {
		return "", false
	}
	value, rest, err := readBytes(c.left)
	if err != nil {
		c.fail(err)
		return "", false
	}
	c.left = rest
	return value, true
}

func (c *codec) appendText(n uint64, s string) {
	if !utf8.ValidString(s) {
		c.fail(errUTF8)
		return
	}
	c.tag(n, typeBytes)
	c.buf = binary.AppendUvarint(c.buf, uint64(len(s)))
	c.buf = append(c.buf, s...)
}

func (c *codec) text(n uint64, s *string) {
	if !c.reading {
		if *s != "" {
			c.appendText(n, *s)
		}
		return
	}
	value, found := c.chunk(n, true)
	if !found {
		return
	}
	if len(value) == 0 {
		c.fail(fmt.Errorf("field %d is empty", n))
	}
	*s = c.checkText(value)
}

// checkText gives a text that was read, and fails where it is none.
func (c *codec) checkText(value string) string {
	if !utf8.ValidString(value) {
		c.fail(errUTF8)
	}
	return value
}

func (c *codec) texts(n uint64, all *[]string) {
	if !c.reading {
		for _, s := range *all {
			c.appendText(n, s)
		}
		return
	}
	for value, found := c.chunk(n, false); found; value, found = c.chunk(n, false) {
		*all = append(*all, c.checkText(value))
	}
}

func (c *codec) bytes(n uint64, b *[]byte) {
	if !c.reading {
		if len(*b) > 0 {
			c.tag(n, typeBytes)
			c.buf = binary.AppendUvarint(c.buf, uint64(len(*b)))
			c.buf = append(c.buf, *b...)
		}
		return
	}
	value, found := c.chunk(n, true)
	if found && len(value) == 0 {
		c.fail(fmt.Errorf("field %d is empty", n))
	}
	if found {
		*b = []byte(value)
	}
}

// appendMessage appends a message with its length before it, unless it is empty and may be left out.
func (c *codec) appendMessage(n uint64, always bool, fields func(*codec)) {
	before := len(c.buf)
	c.tag(n, typeBytes)
	start := len(c.buf)
	fields(c)
	switch {
	case c.err != nil:
	case len(c.buf) == start && !always:
		c.buf = c.buf[:before]
	default:
		size := binary.AppendUvarint(nil, uint64(len(c.buf)-start))
		c.buf = slices.Insert(c.buf, start, size...)
	}
}

// readMessage reads the whole of value as a message.
func (c *codec) readMessage(value string, fields func(*codec)) {
	outer := *c
	*c = codec{reading: true, left: value}
	fields(c)
	c.end()
	err := c.err
	*c = outer
	if err != nil {
		c.fail(err)
	}
}

// message is a field that is left out where the message is empty.
func message[T any](c *codec, n uint64, m *T, fields func(*codec, *T)) {
	if c.reading {
		if value, found := c.chunk(n, true); found {
			if len(value) == 0 {
				c.fail(fmt.Errorf("field %d is empty", n))
			}
			c.readMessage(value, func(c *codec) { fields(c, m) })
		}
		return
	}
	c.appendMessage(n, false, func(c *codec) { fields(c, m) })
}

// optional is a field that is there, empty or not, where the pointer is not nil.
func optional[T any](c *codec, n uint64, m **T, fields func(*codec, *T)) {
	if c.reading {
		if value, found := c.chunk(n, true); found {
			*m = new(T)
			c.readMessage(value, func(c *codec) { fields(c, *m) })
		}
		return
	}
	if *m != nil {
		c.appendMessage(n, true, func(c *codec) { fields(c, *m) })
	}
}

// optionalText is a text that is there, empty or not, where the pointer is not nil.
func (c *codec) optionalText(n uint64, s **string) {
	if c.reading {
		if value, found := c.chunk(n, true); found {
			text := c.checkText(value)
			*s = &text
		}
		return
	}
	if *s != nil {
		c.appendText(n, **s)
	}
}

// messages is a field that is there once for each of all.
func messages[T any](c *codec, n uint64, all *[]T, fields func(*codec, *T)) {
	if !c.reading {
		for i := range *all {
			c.appendMessage(n, true, func(c *codec) { fields(c, &(*all)[i]) })
		}
		return
	}
	for value, found := c.chunk(n, false); found; value, found = c.chunk(n, false) {
		var m T
		c.readMessage(value, func(c *codec) { fields(c, &m) })
		*all = append(*all, m)
	}
}

// small is a field of a number that is not negative.
func small[T ~uint8 | ~uint16 | ~uint32](c *codec, n uint64, v *T) {
	if value := c.number(n, uint64(*v), uint64(^T(0))); c.reading {
		*v = T(value)
	}
}

// signed is a field of an int64, as protobuf writes its int64: a negative number takes ten bytes.
func (c *codec) signed(n uint64, v *int64) {
	if value := c.number(n, uint64(*v), math.MaxUint64); c.reading {
		*v = int64(value)
	}
}

func (c *codec) flag(n uint64, v *bool) {
	value := uint64(0)
	if *v {
		value = 1
	}
	if value = c.number(n, value, 1); c.reading {
		*v = value != 0
	}
}

// readable is what a message is read from.
type readable interface{ string | []byte }

// readVarint reads a number and says how many bytes it took.
func readVarint[B readable](b B) (value uint64, size int, err error) {
	for shift := 0; size < len(b); shift += 7 {
		next := b[size]
		size++
		value |= uint64(next&0x7f) << shift
		switch {
		case size == binary.MaxVarintLen64 && next > 1, size > 1 && next == 0:
			return 0, 0, errOverlong
		case next < 0x80:
			return value, size, nil
		}
	}
	return 0, 0, errTruncated
}

// readTag reads the number and type of a field, and says how many bytes they took.
func readTag[B readable](b B) (number uint64, typ wireType, size int, err error) {
	tag, size, err := readVarint(b)
	if err != nil {
		return 0, 0, 0, err
	}
	number, typ = tag>>3, wireType(tag&7)
	if number == 0 || number > maxField {
		return 0, 0, 0, errField
	}
	return number, typ, size, nil
}

// readBytes reads a value with its length before it.
func readBytes[B readable](b B) (value, rest B, err error) {
	length, size, err := readVarint(b)
	if err != nil {
		return value, rest, err
	}
	if b = b[size:]; length > uint64(len(b)) {
		return value, rest, errTruncated
	}
	return b[:length], b[length:], nil
}

// skipValue is what is left after a value.
func skipValue[B readable](b B, typ wireType) (rest B, err error) {
	size := 0
	switch typ {
	case typeVarint:
		_, size, err = readVarint(b)
	case typeFixed64:
		size = 8
	case typeFixed32:
		size = 4
	case typeBytes:
		_, rest, err = readBytes(b)
		return rest, err
	default:
		err = errWireType
	}
	switch {
	case err != nil:
		return rest, err
	case size > len(b):
		return rest, errTruncated
	}
	return b[size:], nil
}
