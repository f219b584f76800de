package upstream

import (
	"net/textproto"
	"strconv"
	"strings"
)

// Header is a field of a head or a trailer. The name of one that was read is in canonical form, as
// http.Header has it.
type Header struct{ Name, Value string }

// maxFields bounds the fields of a head, whose bytes are bounded, too.
const maxFields = 1000

// answer is what a response's head says of its framing.
type answer struct {
	status int
	// minor is that of the version HTTP/1.minor.
	minor byte
	// length is that of Content-Length, -1 where there is none.
	length  int64
	chunked bool
	// close says whether it is the last response of its connection.
	close   bool
	upgrade string
}

// parseHead reads a response's head. The fields, without those of its framing, are appended to what is
// given; they are parts of text, which is checked to have no control byte but line ends and tabs.
func parseHead(text string, fields []Header) (answer, []Header, error) {
	line, rest := cutLine(text)
	a, err := parseStatus(line)
	if err != nil {
		return a, fields, err
	}
	a.length = -1
	for line, rest = cutLine(rest); line != ""; line, rest = cutLine(rest) {
		h, err := parseField(line)
		if err != nil {
			return a, fields, err
		}
		framing, err := a.note(h)
		if err != nil {
			return a, fields, err
		}
		if !framing {
			fields = append(fields, h)
		}
		if len(fields) > maxFields {
			return a, fields, malformed("the head has too many fields")
		}
	}
	if a.chunked && (a.length >= 0 || a.minor == 0) {
		return a, fields, malformed("Transfer-Encoding with Content-Length, or of HTTP/1.0")
	}
	return a, fields, nil
}

// cutLine is the first line, without its end, and what comes after.
func cutLine(text string) (line, rest string) {
	line, rest, _ = strings.Cut(text, "\n")
	return strings.TrimSuffix(line, "\r"), rest
}

// parseStatus reads "HTTP/1.1 200 OK", of which the reason may be missing, and the space before it.
func parseStatus(line string) (a answer, err error) {
	const version, code = len("HTTP/1."), len("HTTP/1.1 ")
	if len(line) < code+3 || line[:version] != "HTTP/1." || line[version] != '0' && line[version] != '1' || line[version+1] != ' ' {
		return a, malformed("the status line is malformed")
	}
	a.minor = line[version] - '0'
	a.close = a.minor == 0
	for _, digit := range []byte(line[code : code+3]) {
		if digit < '0' || digit > '9' {
			return a, malformed("the status is no number")
		}
		a.status = 10*a.status + int(digit-'0')
	}
	reason := line[code+3:]
	if a.status < 100 || reason != "" && reason[0] != ' ' || !isText(reason) {
		return a, malformed("the status line is malformed")
	}
	return a, nil
}

// parseField reads "Name: value".
func parseField(line string) (Header, error) {
	colon := strings.IndexByte(line, ':')
	if colon < 0 || !isToken(line[:colon]) {
		return Header{}, malformed("a field's name is malformed")
	}
	value := strings.Trim(line[colon+1:], " \t")
	if !isText(value) {
		return Header{}, malformed("a field has a control byte")
	}
	return Header{textproto.CanonicalMIMEHeaderKey(line[:colon]), value}, nil
}

// note takes in what a field says of the framing, and tells whether it says nothing else.
func (a *answer) note(h Header) (framing bool, err error) {
	switch h.Name {
	case "Content-Length":
		n, err := strconv.ParseUint(h.Value, 10, 63)
		if err != nil || a.length >= 0 && a.length != int64(n) {
			return true, malformed("Content-Length is no number, or there are two")
		}
		a.length = int64(n)
		return true, nil
	case "Transfer-Encoding":
		if a.chunked || !strings.EqualFold(h.Value, "chunked") {
			return true, malformed("Transfer-Encoding is not chunked once")
		}
		a.chunked = true
		return true, nil
	case "Connection":
		a.close = a.close || hasElement(h.Value, "close")
	case "Upgrade":
		a.upgrade = h.Value
	case "Trailer":
		for _, name := range []string{"Content-Length", "Transfer-Encoding", "Trailer"} {
			if hasElement(h.Value, name) {
				return false, malformed("the trailer is to have a field of the framing")
			}
		}
	}
	return false, nil
}

// hasElement reports whether a list has an element, whatever its case.
func hasElement(list, element string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.Trim(one, " \t"), element) {
			return true
		}
	}
	return false
}

// tokenBytes are those of a token (RFC 9110, 5.6.2).
var tokenBytes = func() (set [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		set[c] = true
	}
	return set
}()

func isToken(s string) bool {
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return s != ""
}

// isText reports whether a value or reason has no control byte but tabs (RFC 9110, 5.5).
func isText(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
