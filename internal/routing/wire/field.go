package wire

import "unicode/utf8"

// field is one of a message of the envelope. Messages of others are read by it: they may have fields
// in any order, several times, and of zero.
type field struct {
	number uint64
	typ    wireType
	// value is of typeBytes, varint of typeVarint.
	value  []byte
	varint uint64
}

// eachField visits the fields of a message in their order.
func eachField(b []byte, visit func(field) error) error {
	for len(b) > 0 {
		f, rest, err := readField(b)
		if err != nil {
			return err
		}
		if err := visit(f); err != nil {
			return err
		}
		b = rest
	}
	return nil
}

func readField(b []byte) (f field, rest []byte, err error) {
	var size int
	if f.number, f.typ, size, err = readTag(b); err != nil {
		return field{}, nil, err
	}
	b = b[size:]
	switch f.typ {
	case typeVarint:
		f.varint, size, err = readVarint(b)
		if err != nil {
			return field{}, nil, err
		}
		return f, b[size:], nil
	case typeBytes:
		f.value, rest, err = readBytes(b)
	default:
		rest, err = skipValue(b, f.typ)
	}
	return f, rest, err
}

func (f field) bytes(b *[]byte) error {
	if f.typ != typeBytes {
		return errType
	}
	*b = nil
	if size := len(f.value); size > 0 {
		*b = f.value[:size:size]
	}
	return nil
}

func (f field) text(s *string) error {
	switch {
	case f.typ != typeBytes:
		return errType
	case !utf8.Valid(f.value):
		return errUTF8
	}
	*s = string(f.value)
	return nil
}

// int32 reads a number as protobuf does: of one that is too large the lower bits.
func (f field) int32(n *int32) error {
	if f.typ != typeVarint {
		return errType
	}
	*n = int32(uint32(f.varint))
	return nil
}

func (f field) message(visit func(field) error) error {
	if f.typ != typeBytes {
		return errType
	}
	return eachField(f.value, visit)
}

// entry reads one of a map.
func (f field) entry(m map[string]string) error {
	var key, value string
	err := f.message(func(f field) error {
		switch f.number {
		case 1:
			return f.text(&key)
		case 2:
			return f.text(&value)
		}
		return nil
	})
	if err != nil {
		return err
	}
	m[key] = value
	return nil
}
