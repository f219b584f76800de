package healthclient

import (
	"net"
	"reflect"
	"testing"
	"time"
)

// FuzzAnswer reads whatever answers on a health-check port: a verdict, or an error
// and nothing of what was said.
func FuzzAnswer(f *testing.F) {
	const head = "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nIngress-Daemonset-Life: 5\r\nContent-Type: application/json\r\n\r\n"
	for _, body := range []string{
		"", "null", "{}", "[]", `{"serving":true}`, `{"node":"other","serving":true}`, `{"node":"n1","ageSeconds":1e308,"failingSeconds":-1}`,
		`{"asked":null,"mark":7}`, `{"asked":{"by":"192.0.2.1"},"mark":"m","quiet":true,"blind":true}`,
	} {
		f.Add([]byte(head+body), false)
		f.Add([]byte("HTTP/1.1 503 \r\n\r\n"+body), true)
	}
	f.Add([]byte("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"), false)
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"), false)
	f.Add([]byte("SSH-2.0-OpenSSH\r\n"), false)
	f.Fuzz(func(t *testing.T, answer []byte, plain bool) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		go func() {
			defer theirs.Close()
			_ = theirs.SetDeadline(time.Now().Add(10 * time.Second))
			_, _ = theirs.Write(answer)
		}()
		q := &Question{port: &Port{Node: "n1", Plain: plain}, conn: ours, release: func() bool { return true }}
		if err := q.Wait(); err != nil {
			return
		}
		got, err := q.Read()
		if err != nil && !reflect.DeepEqual(got, Answer{}) {
			t.Errorf("%q is the answer %+v, beside %v", answer, got, err)
		}
		if err == nil && got.Since.IsZero() {
			t.Errorf("%q is no answer: %+v", answer, got)
		}
	})
}
