package server

import (
	"errors"
	"net/url"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestLink(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	heard, refused := start.Add(-time.Hour), errors.New("refused")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)

	for name, test := range map[string]struct {
		happens func(*link)
		at      float64
		want    view
	}{
		"at the start":         {func(*link) {}, 1, view{lostAt: heard, next: at(3)}},
		"no answer for long":   {func(*link) {}, 3, view{lostAt: heard, away: true, probing: true, blind: "its watches are open and do not tell what there is"}},
		"refused at the start": {func(l *link) { l.failed(at(1), refused) }, 1, view{lostAt: heard, cause: refused, away: true, probing: true, blind: "refused"}},
		"one watch is not all": {func(l *link) { l.opened(at(1)) }, 2, view{lostAt: heard, next: at(3)}},
		"open": {func(l *link) {
			l.opened(at(1))
			l.opened(at(2))
		}, 10, view{}},
		"open after a refusal": {func(l *link) {
			l.failed(at(1), refused)
			l.opened(at(4))
			l.opened(at(5))
		}, 6, view{probing: true, next: at(20)}},
		"settled": {func(l *link) {
			l.failed(at(1), refused)
			l.opened(at(4))
			l.opened(at(5))
		}, 20, view{}},
		"a short gap": {func(l *link) {
			l.opened(at(1))
			l.opened(at(1))
			l.closed(at(9))
			l.failed(at(9), refused)
		}, 10, view{lostAt: at(9), cause: refused, next: at(11)}},
		"a short gap is over": {func(l *link) {
			l.opened(at(1))
			l.opened(at(1))
			l.closed(at(9))
			l.closed(at(9.5))
			l.opened(at(10))
			l.opened(at(10.9))
		}, 12, view{}},
		"a long gap, counted from its first watch": {func(l *link) {
			l.opened(at(1))
			l.opened(at(1))
			l.closed(at(9))
			l.closed(at(10))
		}, 11, view{lostAt: at(9), away: true, probing: true, next: at(69)}},
		"one watch reopened in a long gap": {func(l *link) {
			l.opened(at(1))
			l.opened(at(1))
			l.closed(at(9))
			l.closed(at(10))
			l.opened(at(12))
		}, 13, view{lostAt: at(9), away: true, probing: true, next: at(69)}},
		"blind": {func(l *link) {
			l.opened(at(1))
			l.opened(at(1))
			l.closed(at(9))
			l.failed(at(60), &url.Error{Op: "Get", URL: "https://10.0.0.1/?a=b", Err: refused})
		}, 69, view{lostAt: at(9), cause: refused, away: true, probing: true, blind: "refused"}},
		"sighted again": {func(l *link) {
			l.opened(at(1))
			l.opened(at(1))
			l.closed(at(9))
			l.failed(at(60), refused)
			l.opened(at(80))
		}, 80, view{probing: true, next: at(95)}},
		"forbidden at the start": {func(l *link) { l.failed(at(1), forbidden) }, 2, view{lostAt: heard, cause: forbidden, next: at(3)}},
		"a gap while settling": {func(l *link) {
			l.failed(at(1), refused)
			l.opened(at(5))
			l.opened(at(5))
			l.closed(at(7))
		}, 8, view{lostAt: at(7), probing: true, next: at(9)}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLink(2, heard, start)
			test.happens(l)
			got := l.view(at(test.at))
			if errors.Is(got.cause, test.want.cause) {
				got.cause = test.want.cause
			}
			if got != test.want {
				t.Errorf("view is %+v, want %+v", got, test.want)
			}
		})
	}
}
