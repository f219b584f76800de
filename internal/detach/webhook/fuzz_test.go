package webhook

import (
	"net/http"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// FuzzAnswer judges any answer: none but 200 is done, the wait is within its bounds, and the
// message is a line that may be shown.
func FuzzAnswer(f *testing.F) {
	for _, retry := range []string{"", "7", "-7", "99999999999999999999", "soon", "Fri, 02 Jan 2026 03:04:05 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT"} {
		f.Add(202, retry, "Fri, 02 Jan 2026 03:04:00 GMT", "text/plain", "3 sessions")
	}
	f.Add(200, "", "", "", "a\x00b\x1b[31mc\u202ed\xffe")
	f.Add(200, "", "", "text/html; charset=", "<html>")
	f.Add(302, "", "", "/", "")
	f.Fuzz(func(t *testing.T, status int, retry, date, kind, body string) {
		header := http.Header{"Retry-After": {retry}, "Date": {date}, "Content-Type": {kind}, "Location": {kind}}
		answer, err := judge(&http.Response{StatusCode: status, Status: http.StatusText(status), Header: header}, []byte(body))
		switch {
		case err != nil:
			if answer != (Answer{}) {
				t.Errorf("%+v beside %v", answer, err)
			}
		case answer.Done != (status == http.StatusOK):
			t.Errorf("%d is done: %t", status, answer.Done)
		case !answer.Done && (answer.RetryAfter < time.Second || answer.RetryAfter > 5*time.Minute):
			t.Errorf("it is asked again after %s", answer.RetryAfter)
		}
		if len(answer.Message) > maxMessage || !utf8.ValidString(answer.Message) {
			t.Errorf("the message is %q", answer.Message)
		}
		for _, r := range answer.Message {
			if !unicode.IsPrint(r) {
				t.Errorf("the message %q has %U", answer.Message, r)
			}
		}
	})
}
