package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
)

// FuzzQuestion asks a health checker anything that HTTP can carry: it answers with a verdict,
// at once unless the question has the present one already, and holds no pod for others.
func FuzzQuestion(f *testing.F) {
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET /?connections HTTP/1.1\r\nHost: a\r\n\r\n", "GET /?drain=a HTTP/1.1\r\nHost: a\r\n\r\n", "GET /?%zz&;= HTTP/1.0\r\n\r\n",
		"HEAD * HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"x\"\r\nPrefer: wait=99999999999999999999, wait=\"-1\"\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nPrefer: WAIT = 5\r\nIngress-Daemonset-Life: -5\r\n\r\n",
	} {
		f.Add([]byte(request), "192.0.2.1:80")
	}
	f.Fuzz(func(t *testing.T, raw []byte, remote string) {
		request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		request.RemoteAddr = remote
		if wait := waits(request); wait < 0 || wait > maxWait {
			t.Errorf("it waits for %s", wait)
		}
		if every := life(request); every < 0 || every > maxWait {
			t.Errorf("it shows life every %s", every)
		}
		// What is asked for beside is the business of others.
		request.Header.Del("Prefer")
		r := NewResponder(quiet)
		r.Update(nodehealth.State{Node: "a"})
		recorder := httptest.NewRecorder()
		r.ServeHTTP(recorder, request)
		var answer v1alpha1.HealthCheckAnswer
		if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil || recorder.Code != http.StatusServiceUnavailable || answer.Serving {
			t.Errorf("%d %s: %v", recorder.Code, recorder.Body, err)
		}
	})
}
