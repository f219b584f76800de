package server

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	maxWait = 5 * time.Minute
	// maxPolls is how many requests may wait at a time; further ones are answered at once.
	maxPolls = 256
	// writeTimeout bounds the answer to a client that does not read.
	writeTimeout = 5 * time.Second
)

// poll is a request that waits for a change. Its connection is taken from the
// HTTP server, so that all it costs is the connection and a timer.
type poll struct {
	conn   net.Conn
	method string
	timer  *time.Timer
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
	p := &poll{conn: conn, method: req.Method}
	p.timer = time.AfterFunc(wait, func() { r.expire(p) })
	r.polls[p] = struct{}{}
	return true
}

func (r *Responder) expire(p *poll) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finish(p)
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
