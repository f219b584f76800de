package webhook

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	defaultRetry = 5 * time.Second
	minRetry     = time.Second
	maxRetry     = 5 * time.Minute
)

// retryAfter is Retry-After (RFC 9110, section 10.2.3), seconds or a date, within
// bounds. A date counts from the answer's own Date, so that a receiver whose clock
// is wrong is still waited for as long as it meant.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := header.Get("Retry-After")
	wait := defaultRetry
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		wait = time.Duration(min(seconds, uint64(maxRetry/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		if date, err := http.ParseTime(header.Get("Date")); err == nil {
			now = date
		}
		wait = at.Sub(now)
	}
	return min(max(wait, minRetry), maxRetry)
}

// message is the start of a body as one line that may be logged and shown.
func message(body []byte) string {
	text := strings.ToValidUTF8(string(body[:min(len(body), maxMessage)]), "")
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}
