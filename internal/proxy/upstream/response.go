package upstream

import (
	"strconv"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
)

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
func parseHead(text string, fields []message.Field) (answer, []message.Field, error) {
	line, rest := message.CutLine(text)
	a, err := parseStatus(line)
	if err != nil {
		return a, fields, err
	}
	a.length = -1
	for line, rest = message.CutLine(rest); line != ""; line, rest = message.CutLine(rest) {
		h, err := message.ParseField(line)
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
		if len(fields) > message.MaxFields {
			return a, fields, message.ErrTooMany
		}
	}
	if a.chunked && (a.length >= 0 || a.minor == 0) {
		return a, fields, message.Malformed("Transfer-Encoding with Content-Length, or of HTTP/1.0")
	}
	return a, fields, nil
}

// parseStatus reads "HTTP/1.1 200 OK", of which the reason may be missing, and the space before it.
func parseStatus(line string) (a answer, err error) {
	const version, code = len("HTTP/1."), len("HTTP/1.1 ")
	if len(line) < code+3 || line[:version] != "HTTP/1." || line[version] != '0' && line[version] != '1' || line[version+1] != ' ' {
		return a, message.Malformed("the status line is malformed")
	}
	a.minor = line[version] - '0'
	a.close = a.minor == 0
	for _, digit := range []byte(line[code : code+3]) {
		if digit < '0' || digit > '9' {
			return a, message.Malformed("the status is no number")
		}
		a.status = 10*a.status + int(digit-'0')
	}
	reason := line[code+3:]
	if a.status < 100 || reason != "" && reason[0] != ' ' || !message.IsText(reason) {
		return a, message.Malformed("the status line is malformed")
	}
	return a, nil
}

// note takes in what a field says of the framing, and tells whether it says nothing else.
func (a *answer) note(h message.Field) (framing bool, err error) {
	switch h.Name {
	case "Content-Length":
		n, err := strconv.ParseUint(h.Value, 10, 63)
		if err != nil || a.length >= 0 && a.length != int64(n) {
			return true, message.Malformed("Content-Length is no number, or there are two")
		}
		a.length = int64(n)
		return true, nil
	case "Transfer-Encoding":
		if a.chunked || !message.IsWord(h.Value, "chunked") {
			return true, message.Malformed("Transfer-Encoding is not chunked once")
		}
		a.chunked = true
		return true, nil
	case "Connection":
		a.close = a.close || message.HasElement(h.Value, "close")
	case "Upgrade":
		a.upgrade = h.Value
	case "Trailer":
		for _, name := range []string{"Content-Length", "Transfer-Encoding", "Trailer"} {
			if message.HasElement(h.Value, name) {
				return false, message.Malformed("the trailer is to have a field of the framing")
			}
		}
	}
	return false, nil
}

// framing is how the end of its body is found; head says whether it answers HEAD.
func (a *answer) framing(head bool) message.Framing {
	switch {
	case head || a.status < 200 || a.status == 204 || a.status == 304:
		return message.None
	case a.chunked:
		return message.Chunked
	case a.length < 0:
		return message.UntilClose
	}
	return message.Sized
}

// beginsLikeResponse reports what cannot become a response.
func beginsLikeResponse(b []byte) error {
	const begin = "HTTP/1."
	if n := min(len(b), len(begin)); string(b[:n]) != begin[:n] {
		return message.Malformed("it is no response of HTTP/1")
	}
	return nil
}
