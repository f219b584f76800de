package wire

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Refusal is a resource that a proxy cannot use, by its name on the stream, and why. An empty name is that
// of a whole response.
type Refusal struct{ Name, Reason string }

// PortUnavailable begins the reason of a listener that was taken, and whose port the proxy cannot have.
const PortUnavailable = "PortUnavailable: "

// maxRefusals and maxRefusalBytes bound what is read of a status: who sends it is not believed to be brief.
const (
	maxRefusals     = 100
	maxRefusalBytes = 64 << 10
)

// maxReason bounds the bytes of a reason on its way.
const maxReason = 512

// invalidArgument is that of google.rpc.Code.
const invalidArgument = 3

// Refused is the status that says what is refused, nil where nothing is: a line for each, of its quoted
// name and the reason, which is cut at 512 bytes.
func Refused(all []Refusal) *Status {
	if len(all) == 0 {
		return nil
	}
	var b strings.Builder
	for i, r := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(strconv.Quote(r.Name))
		b.WriteString(": ")
		b.WriteString(inOneLine(r.Reason))
	}
	return &Status{Code: invalidArgument, Message: b.String()}
}

// Refusals is Refused read backward. A line that is of another form is taken for the reason of all.
func (s *Status) Refusals() (all []Refusal) {
	if s == nil {
		return nil
	}
	message := s.Message[:min(len(s.Message), maxRefusalBytes)]
	for line := range strings.SplitSeq(message, "\n") {
		if all = append(all, refusalOf(line)); len(all) == maxRefusals {
			break
		}
	}
	return all
}

func refusalOf(line string) Refusal {
	quoted, err := strconv.QuotedPrefix(line)
	if err != nil {
		return Refusal{Reason: line}
	}
	name, err := strconv.Unquote(quoted)
	reason, found := strings.CutPrefix(line[len(quoted):], ": ")
	if err != nil || !found {
		return Refusal{Reason: line}
	}
	return Refusal{name, reason}
}

// inOneLine is a text without control characters, of maxReason bytes at most.
func inOneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) <= maxReason {
		return text
	}
	end := maxReason
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
