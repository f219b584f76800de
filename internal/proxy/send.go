package proxy

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"syscall"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/balance"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/upstream"
)

// try is what is known of a request's tries.
type try struct {
	// since is when the first endpoint was chosen, or the first after the request was written.
	since time.Time
	// cookie is the value that the client sent, given its name where the client is to be given another.
	cookie, given string
	tried         []*endpoint
	// unreached are those of them that never saw the request and are not asked again, unanswered says whether there is
	// another one that did not answer a connect in time. Where the time was the route's it is not asked again: that may be
	// short, and who has no room for a connect would get hundreds.
	unreached  []*endpoint
	unanswered bool
	// retries are those after the request was written.
	retries int
	// failed is how the last one did that failed, seen how the last one whose endpoint may have seen the request.
	failed, seen *upstream.Error
	// endpoint is the one that answered.
	endpoint *endpoint
	// cancel ends the response, of h2c alone.
	cancel context.CancelFunc
}

// answer is a response whose body is to come.
type answer struct {
	status int
	header []message.Field
	// length is that of the body, or of what HEAD asks for; -1 where it is unknown.
	length int64
	body   answerBody
}

// answerBody is upstream.Response, or h2cBody.
type answerBody interface {
	Read(p []byte) (int, error)
	Ready() bool
	Trailer() []message.Field
	Close()
}

// send gives the request to one endpoint after the other until one answers. Where none does, it is by
// which status the client is told.
func (x *exchange) send() (status int) {
	t, b := &x.try, x.backend
	t.since = time.Now()
	x.recall(b.cookie())
	x.writeHead()
	status = http.StatusServiceUnavailable
	for now := t.since; ; now = time.Now() {
		if x.isOver(now) {
			return http.StatusGatewayTimeout
		}
		e := b.next(now, t.cookie, t.tried)
		if e == nil && (t.retries > 0 || t.unanswered) {
			// There is no other: one that answered nothing may answer on another connection. A connect is not answered,
			// too, where one packet was lost.
			e = b.next(now, t.cookie, t.unreached)
		}
		if e == nil {
			return status
		}
		t.tried = append(t.tried, e)
		failed := x.giveTo(e, now)
		if failed == nil {
			b.succeeded(e, now)
			t.endpoint = e
			return 0
		}
		t.failed, status = failed, x.statusOf(failed)
		if !x.mayRepeat(e, now, failed) {
			return status
		}
	}
}

// recall reads the client's cookie.
func (x *exchange) recall(name string) {
	if name == "" {
		return
	}
	x.try.given = name
	if c, err := x.r.Cookie(name); err == nil {
		x.try.cookie = c.Value
	}
}

// writeHead writes the request for endpoints of HTTP/1.1. What cannot be written is told by Do.
func (x *exchange) writeHead() {
	var length int64
	switch {
	case x.small:
		length = int64(len(x.kept))
	case x.hasBody:
		length = x.r.ContentLength
	}
	target := x.r.RequestURI
	if size := len(x.path); len(target) != size+len(x.rest) || target[:size] != x.path {
		target = x.path + x.rest
	}
	x.head.Start(x.r.Method, target, x.host, length)
	x.writeFields(&x.head)
	if x.expects {
		x.head.Add("Expect", "100-continue")
	}
	if x.upgrade != "" {
		x.head.Upgrade(x.upgrade)
	}
}

// giveTo sends the request to an endpoint, and reads the response's head.
func (x *exchange) giveTo(e *endpoint, now time.Time) *upstream.Error {
	if to := e.Value.h2c; to != nil {
		return x.giveToH2C(to, now)
	}
	q := &x.request
	// One that is ending may have left idle connections as they are, but takes no new one: so what may be
	// retried a few times is not spent on those that end together.
	*q = upstream.Request{Head: &x.head, Fresh: x.try.retries > 0, Deadline: x.deadline(now), Informational: x.inform}
	switch {
	case x.small:
		q.Body = x.kept
	case x.hasBody:
		q.Stream, q.Stop, q.Trailer, q.Expect = &x.body, x.stop, x.trailer, x.expects
	}
	if err := e.Value.pool.Do(x.r.Context(), q, &x.response); err != nil {
		failed, _ := errors.AsType[*upstream.Error](err)
		return failed
	}
	x.answer = answer{x.response.Status, x.response.Header, x.response.Length, &x.response}
	return nil
}

// deadline is until when a try that begins now may last, zero for any time.
func (x *exchange) deadline(now time.Time) (by time.Time) {
	if ms := x.route.Timeout; ms > 0 {
		by = x.start.Add(time.Duration(ms) * time.Millisecond)
	}
	if ms := x.route.BackendTimeout; ms > 0 {
		if each := now.Add(time.Duration(ms) * time.Millisecond); by.IsZero() || each.Before(by) {
			by = each
		}
	}
	return by
}

// isOver reports whether the route's time-out is.
func (x *exchange) isOver(now time.Time) bool {
	late := x.route.Timeout
	return late > 0 && now.Sub(x.start) >= time.Duration(late)*time.Millisecond
}

// mayRepeat notes how an endpoint failed, and reports whether the request may go to another.
func (x *exchange) mayRepeat(e *endpoint, given time.Time, failed *upstream.Error) bool {
	t, b, now := &x.try, x.backend, time.Now()
	if counts := &b.counts; failed.Class != upstream.Canceled {
		counts.failures[failed.Class].Add(1)
	}
	if isFault(failed) && !x.wasHurried(failed, given, now) {
		b.failed(e, now, failed)
	}
	if x.isOver(now) {
		return false
	}
	switch balance.Again(balance.Try{
		Failure: failureOf(failed), Method: x.r.Method, Retries: t.retries, Since: now.Sub(t.since),
		Whole: x.isWhole(),
	}) {
	case balance.Free:
		if by := x.deadline(given); failed.Class == upstream.TimedOut && (by.IsZero() || now.Before(by)) {
			t.unanswered = true
		} else {
			t.unreached = append(t.unreached, e)
		}
		return true
	case balance.Budgeted:
		if !b.retry(now) {
			b.counts.exhausted.Add(1)
			return false
		}
		if t.retries == balance.MaxRetries-1 && !x.pause() {
			return false
		}
		b.counts.retries.Add(1)
		t.seen = failed
		t.retries++
		t.since = time.Now()
		return true
	}
	return false
}

// pause waits before the last retry, and is false where the client has left meanwhile. Of what is left of the route's
// time-out it takes half at most: the rest is for the retry.
func (x *exchange) pause() bool {
	d := x.p.options.LastRetry
	if late := x.route.Timeout; late > 0 {
		d = min(d, (time.Duration(late)*time.Millisecond-time.Since(x.start))/2)
	}
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
		return true
	case <-x.r.Context().Done():
		return false
	}
}

// isFault reports whether a failure is held against the endpoint: it refused, reset, or did not answer in time.
func isFault(failed *upstream.Error) bool {
	switch failed.Class {
	case upstream.NotConnected:
		return !errors.Is(failed, upstream.ErrLeft) && !isShortage(failed)
	case upstream.NotWritten:
		return !errors.As(failed, &errUnwritten{})
	case upstream.NoResponse:
		return true
	case upstream.BodyBroken, upstream.TimedOut:
		return failed.During != upstream.ReadingBody
	}
	return false
}

// wasHurried reports whether an endpoint that came to a deadline of the route's had less than half of the time-out: the
// client took the rest for its body, or endpoints before this one did. Otherwise clients could have any left out.
func (x *exchange) wasHurried(failed *upstream.Error, given, now time.Time) bool {
	by := x.deadline(given)
	if failed.Class != upstream.TimedOut || failed.During == upstream.Sending || by.IsZero() || now.Before(by) {
		return false
	}
	since := given
	if x.hasBody && !x.small && x.body.touched.Load() {
		came := x.body.came.Load()
		if came == 0 {
			return true
		}
		if at := time.Unix(0, came); at.After(given) {
			since = at
		}
	}
	whole := x.route.Timeout
	if each := x.route.BackendTimeout; whole == 0 || 0 < each && each < whole {
		whole = each
	}
	return 2*by.Sub(since) < time.Duration(whole)*time.Millisecond
}

// isShortage reports whether it was this machine or process that had nothing left for a connection: no descriptor, no
// port, no memory. The endpoint was not asked.
func isShortage(failed *upstream.Error) bool {
	number, is := errors.AsType[syscall.Errno](failed)
	return is && slices.Contains(shortages, number)
}

var shortages = []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM}

// failureOf is how far a try had come.
func failureOf(failed *upstream.Error) balance.Failure {
	switch failed.Class {
	case upstream.NotConnected:
		return balance.NotConnected
	case upstream.TimedOut:
		if failed.During == upstream.Connecting {
			return balance.NotConnected
		}
	case upstream.NotWritten:
		return balance.NotWritten
	case upstream.NoResponse:
		return balance.NoResponse
	}
	return balance.Answered
}

// statusOf is by which status the client is told of a failure.
func (x *exchange) statusOf(failed *upstream.Error) int {
	// What broke the body comes first: it ends the request's context, too.
	if status := x.body.status.Load(); status != 0 {
		return int(status)
	}
	switch failed.Class {
	case upstream.NotConnected:
		if isShortage(failed) {
			return http.StatusServiceUnavailable
		}
	case upstream.TimedOut:
		return http.StatusGatewayTimeout
	case upstream.Canceled:
		return statusGone
	case upstream.RequestBroken:
		return http.StatusBadRequest
	case upstream.Invalid:
		return http.StatusInternalServerError
	}
	return http.StatusBadGateway
}
