package wire

import (
	"bytes"
	"errors"
	"strings"
)

// Why a path has no normal form.
var (
	errNoPath = errors.New("it does not begin with /")
	errByte   = errors.New("it has a space, a control byte, ? or #")
	errEscape = errors.New("it has a % without two hexadecimal digits")
	errNUL    = errors.New("it has an escaped NUL")
	errAbove  = errors.New("it goes above the root")
)

// NormalPath gives the one form of a path, without query, in which rules name it and requests are
// matched and sent: escapes of unreserved characters are decoded and the digits of all others upper-case
// (RFC 3986, 6.2.2), bytes that have no place in a path are escaped (3.3), dot segments are removed,
// escaped ones too (5.2.4). %2F and // stay, because to a server they may be something else than /. The
// normal form of a normal form is itself.
//
// Where there is none its error says why: for a path that goes above the root, has a NUL or a bad
// escape, or bytes that no target may have. It allocates only where something changes.
func NormalPath(path string) (string, error) {
	if path == "" || path[0] != '/' {
		return "", errNoPath
	}
	changes := false
	for i := range len(path) {
		switch c := path[i]; {
		case c <= ' ' || c == 0x7f || c == '?' || c == '#':
			return "", errByte
		case c == '%', c == '.' && path[i-1] == '/', !plain(c):
			changes = true
		}
	}
	if !changes {
		return path, nil
	}
	decoded, err := decodeUnreserved(path)
	if err != nil {
		return "", err
	}
	return removeDots(decoded)
}

func decodeUnreserved(path string) ([]byte, error) {
	out := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		if c := path[i]; c != '%' {
			if plain(c) {
				out = append(out, c)
			} else {
				out = escaped(out, c)
			}
			continue
		}
		if i+2 >= len(path) {
			return nil, errEscape
		}
		high, low := digit(path[i+1]), digit(path[i+2])
		if high < 0 || low < 0 {
			return nil, errEscape
		}
		switch c := byte(high<<4 | low); {
		case c == 0:
			return nil, errNUL
		case unreserved(c):
			out = append(out, c)
		default:
			out = escaped(out, c)
		}
		i += 2
	}
	return out, nil
}

func escaped(out []byte, c byte) []byte {
	const digits = "0123456789ABCDEF"
	return append(out, '%', digits[c>>4], digits[c&15])
}

// plain bytes stand in a path as they are (RFC 3986, 3.3).
func plain(c byte) bool { return unreserved(c) || strings.IndexByte("/!$&'()*+,;=:@", c) >= 0 }

// digit is the value of a hexadecimal digit, negative where it is none.
func digit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// unreserved characters mean the same escaped or not (RFC 3986, 2.3).
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// removeDots writes into the path's own bytes, in which it is never ahead of what it reads.
func removeDots(path []byte) (string, error) {
	out := path[:0]
	for rest, more := path[1:], true; more; {
		var segment []byte
		segment, rest, more = bytes.Cut(rest, []byte{'/'})
		switch string(segment) {
		case "..":
			if len(out) == 0 {
				return "", errAbove
			}
			out = out[:bytes.LastIndexByte(out, '/')]
		case ".":
		default:
			out = append(append(out, '/'), segment...)
			continue
		}
		if !more {
			out = append(out, '/')
		}
	}
	return string(out), nil
}
