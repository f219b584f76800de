package message

import (
	"net/http"
	"net/textproto"
	"strings"
)

// MaxFields bounds the fields of a head, whose bytes are bounded, too.
const MaxFields = 1000

// Malformed is what is wrong with a message.
type Malformed string

func (m Malformed) Error() string { return string(m) }

// What a head has too much of.
const (
	ErrTooLong = Malformed("the head is too long")
	ErrTooMany = Malformed("the head has too many fields")
)

// Field is one of a head or a trailer. The name of one that was read is in canonical form, as http.Header has it.
type Field struct{ Name, Value string }

// AddTo adds it to a header. Its value is in room, which has a place for it: so all of a head may be in one piece of
// memory, as those of net/textproto are.
func (f Field) AddTo(h http.Header, room []string) {
	if before, there := h[f.Name]; there {
		h[f.Name] = append(before[:len(before):len(before)], f.Value)
		return
	}
	room[0] = f.Value
	h[f.Name] = room[:1:1]
}

// CutLine is the first line, without its end, and what comes after.
func CutLine(text string) (line, rest string) {
	line, rest, _ = strings.Cut(text, "\n")
	return strings.TrimSuffix(line, "\r"), rest
}

// ParseField reads "Name: value". Its error is Malformed.
func ParseField(line string) (Field, error) {
	colon := strings.IndexByte(line, ':')
	if colon < 0 || !IsToken(line[:colon]) {
		return Field{}, Malformed("a field's name is malformed")
	}
	value := strings.Trim(line[colon+1:], " \t")
	if !IsText(value) {
		return Field{}, Malformed("a field has a control byte")
	}
	return Field{textproto.CanonicalMIMEHeaderKey(line[:colon]), value}, nil
}

// IsWord reports whether s is a word of ASCII, whatever the case of its letters. strings.EqualFold alone takes some others
// for them: the sign of Kelvin (U+212A) for k.
func IsWord(s, word string) bool { return len(s) == len(word) && strings.EqualFold(s, word) }

// HasElement reports whether a list has an element, whatever its case.
func HasElement(list, element string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if IsWord(strings.Trim(one, " \t"), element) {
			return true
		}
	}
	return false
}

// tokenBytes are those of a token.
var tokenBytes = func() (set [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		set[c] = true
	}
	return set
}()

// IsToken reports whether s is a token, as names of fields and methods are (RFC 9110, 5.6.2).
func IsToken(s string) bool {
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return s != ""
}

// IsText reports whether a value or reason has no control byte but tabs (RFC 9110, 5.5).
func IsText(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
