package server

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

const (
	maxWait = 5 * time.Minute
	// maxPolls is how many requests may wait at a time; further ones are answered at once.
	maxPolls = 256
	// writeTimeout bounds the answer to a client that does not read.
	writeTimeout = 5 * time.Second
	// signTime bounds a sign of life: all those of one request fit into any buffer.
	signTime = time.Second
	sign     = "HTTP/1.1 102 Processing\r\n\r\n"
)

// poll is a request that waits for a change. Its connection is taken from the
// HTTP server, so that all it costs is the connection and a timer.
type poll struct {
	conn   net.Conn
	method string
	timer  *time.Timer
	// until is when it is answered at the latest, life how often it is shown that there
	// will be an answer; 0 for never.
	until time.Time
	life  time.Duration
}

// waits is how long the request asks to wait by its Prefer headers (RFC 7240).
func waits(req *http.Request) time.Duration {
	for _, preference := range strings.Split(strings.Join(req.Header.Values("Prefer"), ","), ",") {
		name, value, _ := strings.Cut(preference, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		seconds, err := strconv.Atoi(strings.Trim(strings.TrimSpace(value), `"`))
		if err != nil || seconds < 0 {
			return 0
		}
		return time.Duration(min(seconds, int(maxWait.Seconds()))) * time.Second
	}
	return 0
}

// life is how often the request wants to see a sign of life while it waits; 0 for never.
func life(req *http.Request) time.Duration {
	seconds, err := strconv.Atoi(req.Header.Get(v1alpha1.HeaderLife))
	// HTTP/1.0 knows no interim responses.
	if err != nil || seconds < 1 || !req.ProtoAtLeast(1, 1) {
		return 0
	}
	return time.Duration(min(seconds, int(maxWait.Seconds()))) * time.Second
}

// hold puts a request that has the present verdict already off, until that
// changes or the time is over. Where it returns false the request is still to be
// answered.
func (r *Responder) hold(w http.ResponseWriter, req *http.Request, wait time.Duration) bool {
	hijacker, ok := w.(http.Hijacker)
	if !ok || req.ContentLength != 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || req.Header.Get("If-None-Match") != r.tag || len(r.polls) >= maxPolls {
		return false
	}
	conn, _, err := hijacker.Hijack()
	if err != nil {
		return false
	}
	if c, ok := conn.(*boundedConn); ok {
		c.leave()
	}
	p := &poll{conn: conn, method: req.Method, until: time.Now().Add(wait), life: life(req)}
	r.polls[p] = struct{}{}
	first := wait
	if p.life > 0 {
		first = 0
	}
	p.timer = time.AfterFunc(first, func() { r.wake(p) })
	return true
}

// wake answers a request whose time is over, and shows life to one that waits on.
func (r *Responder) wake(p *poll) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := time.Until(p.until)
	if _, waiting := r.polls[p]; !waiting {
		return
	}
	if left <= 0 {
		r.finish(p)
		return
	}
	if err := p.showLife(); err != nil {
		r.log.Debug("Client went away", "error", err)
		delete(r.polls, p)
		p.conn.Close()
		return
	}
	p.timer.Reset(min(left, p.life))
}

func (p *poll) showLife() error {
	if err := p.conn.SetWriteDeadline(time.Now().Add(signTime)); err != nil {
		return err
	}
	_, err := io.WriteString(p.conn, sign)
	return err
}

// answerPolls answers all requests that wait. r.mu is held.
func (r *Responder) answerPolls() {
	for p := range r.polls {
		r.finish(p)
	}
}

// finish answers a request that waits, once. r.mu is held.
func (r *Responder) finish(p *poll) {
	if _, waiting := r.polls[p]; !waiting {
		return
	}
	delete(r.polls, p)
	r.send(p)
}

// send answers a request that has waited. r.mu is held.
func (r *Responder) send(p *poll) {
	p.timer.Stop()
	r.writing++
	go func() {
		r.reply(p)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.writing--; r.writing == 0 {
			r.settled.Broadcast()
		}
	}()
}

func (r *Responder) reply(p *poll) {
	defer p.conn.Close()
	status, header, body := r.render(nil)
	response := http.Response{
		StatusCode:    status,
		ProtoMajor:    1,
		ProtoMinor:    1,
		Request:       &http.Request{Method: p.method},
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Close:         true,
	}
	var out bytes.Buffer
	err := response.Write(&out)
	if err == nil {
		err = p.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	}
	if err == nil {
		_, err = p.conn.Write(out.Bytes())
	}
	if err != nil {
		r.log.Debug("Client went away", "error", err)
	}
}

// closePolls answers all requests that wait, and makes none wait any more.
func (r *Responder) closePolls() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.answerPolls()
	for r.writing > 0 {
		r.settled.Wait()
	}
}
