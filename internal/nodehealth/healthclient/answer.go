package healthclient

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

const (
	mostAnswer = 64 << 10
	// mostKept is how many bytes of a mark, an ETag or an address are kept, mostBlind how many of
	// a message: an image that its user chose may answer. A mark of ours takes up 100 at most.
	mostKept  = 256
	mostBlind = 1 << 10
	// mostPorts is of how many ingress ports the connections are kept.
	mostPorts = 256
	// longMark stands for a longer mark. It is not ours, which begin with a time.
	longMark = "a longer one"
	// longest is the longest age that is believed.
	longest = 30 * 24 * time.Hour
	// blindAfter is for how long a health checker must not have heard from the API server.
	blindAfter = time.Minute
)

// Answer is what a port answered, of which no more is kept than one of ours has.
type Answer struct {
	Known
	// Serving says whether the port passes: load balancers go by the status alone.
	Serving bool
	// Since is when it began to pass or, whatever marks came meanwhile, to fail, by our
	// clock. Where it does not tell, it is when the answer came.
	Since time.Time
	// Node is who answers, empty where it does not tell.
	Node string
	// Mark, Quiet and Blind are those of v1alpha1.HealthCheckAnswer, AskedBy is Asked.By.
	Mark           v1alpha1.Mark
	Quiet          bool
	Blind, AskedBy string
	// Connections are told where they were asked for.
	Connections []v1alpha1.PortConnections
}

// Read reads the answer that Wait saw begin. What is no answer of the port's own node is an error.
func (q *Question) Read() (Answer, error) {
	_ = q.conn.SetDeadline(time.Now().Add(AnswerTime))
	rest := io.MultiReader(bytes.NewReader(q.head[:q.came]), io.LimitReader(q.conn, mostAnswer))
	response, err := http.ReadResponse(bufio.NewReaderSize(rest, 1024), nil)
	if err != nil {
		return Answer{}, fmt.Errorf("reading: %w", err)
	}
	defer response.Body.Close()
	answer := Answer{Serving: response.StatusCode == http.StatusOK, Since: time.Now()}
	if q.port.Plain {
		return answer, nil
	}
	var body v1alpha1.HealthCheckAnswer
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		// Somebody else answers on the port: that node is not ours to call serving.
		return Answer{}, fmt.Errorf("decoding: %w", err)
	}
	if body.Node != "" && body.Node != q.port.Node {
		return Answer{}, fmt.Errorf("node %s answers at the address of node %s", body.Node, q.port.Node)
	}
	answer.keep(&body, response.Header)
	return answer, nil
}

// keep takes from a body and its headers what callers need.
func (a *Answer) keep(body *v1alpha1.HealthCheckAnswer, header http.Header) {
	a.Node, a.Quiet = body.Node, body.Quiet
	for _, c := range body.Connections {
		if c.Port > 0 && c.Port <= 65535 && len(a.Connections) < mostPorts {
			a.Connections = append(a.Connections, c)
		}
	}
	a.Mark, a.Blind = v1alpha1.Mark(cut(body.Mark, mostKept)), cut(body.Blind, mostBlind)
	if len(body.Mark) > mostKept {
		a.Mark = longMark
	}
	if body.Asked != nil {
		a.AskedBy = cut(body.Asked.By, mostKept)
	}
	age := body.AgeSeconds
	if !a.Serving {
		age = max(age, body.FailingSeconds)
	}
	a.Since = a.Since.Add(-Ago(age))
	a.Alive = header.Get(v1alpha1.HeaderLife) != ""
	if !a.Alive && body.APIAgeSeconds >= blindAfter.Seconds() {
		// The first release tells nothing but this age.
		a.Blind = "it has not heard from it for a minute"
	}
	if tag := header.Get("ETag"); len(tag) <= mostKept {
		// One that is longer is asked like one that has none.
		a.ETag = tag
	}
}

// Ago is how long ago something was by an answer's number of seconds: never to come, and of an
// image that its user chose 30 days at most.
func Ago(seconds float64) time.Duration {
	return time.Duration(max(0, min(seconds, longest.Seconds())) * float64(time.Second))
}

// cut is a copy of the beginning of a text, which keeps no more of it in memory.
func cut(text string, most int) string {
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), most)], ""))
}
