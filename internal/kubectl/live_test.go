package kubectl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestCanvas draws each text in the place of the last.
func TestCanvas(t *testing.T) {
	var out strings.Builder
	c := &canvas{out: &out, size: func() (int, int) { return 10, 4 }}
	for _, step := range []struct{ text, over string }{
		{"a\nb\n", ""},
		{"\x1b[32mtwelve wide\x1b[0m\n\nc\n", "\x1b[2A\x1b[J"},
		{"d\n", "\x1b[H\x1b[2J"},
		{"äöüäöüäöüä\n", "\x1b[1A\x1b[J"},
		{"e\n", "\x1b[1A\x1b[J"},
		{"磁盘已满无法启动\n", "\x1b[1A\x1b[J"},
		{"e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301\n", "\x1b[2A\x1b[J"},
		{"f\n", "\x1b[1A\x1b[J"},
	} {
		out.Reset()
		if err := c.draw(step.text); err != nil || out.String() != step.over+step.text {
			t.Errorf("%q, %v, want %q before the text", out.String(), err, step.over)
		}
	}
}

// TestLive shows every change at once, and the last of them every second.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown []string
		l := &live[string]{text: func(s string) string { return s }, draw: func(s string) error {
			shown = append(shown, s)
			if s == "broken" {
				return errors.New("no terminal any more")
			}
			return nil
		}}
		ctx, stop := context.WithCancel(t.Context())
		go l.tick(ctx)
		time.Sleep(1500 * time.Millisecond)
		if len(shown) > 0 {
			t.Errorf("%q is shown before there is anything", shown)
		}
		if err := l.changed("first"); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if err := l.changed("broken"); err == nil {
			t.Error("an error is lost")
		}
		if got := strings.Join(shown, " "); got != "first first first broken" {
			t.Errorf("shown: %s", got)
		}
		stop()
		synctest.Wait()
	})
}

// TestLiveKeepsItsPicture while the API server is away, and says below for how long.
func TestLiveKeepsItsPicture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made int
		var shown string
		l := &live[string]{
			text: func(s string) string { made++; return fmt.Sprintf("%s %d\n", s, made) },
			draw: func(s string) error { shown = s; return nil },
		}
		if err := l.changed("first"); err != nil {
			t.Error(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		go l.tick(ctx)
		l.away(outage{time.Now(), errors.New("connection \x1b[2Jrefused")})
		time.Sleep(90*time.Second + time.Millisecond)
		synctest.Wait()
		if want := "first 1\nThe API server is away for 1m30s, and is asked again: connection \ufffd[2Jrefused\n"; shown != want {
			t.Errorf("%q, want %q", shown, want)
		}
		if err := l.changed("second"); err != nil || shown != "second 2\n" {
			t.Errorf("%v, %q", err, shown)
		}
		stop()
		synctest.Wait()
	})
}
