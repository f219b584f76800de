package main

import (
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// mostLines is how many lines of strangers' making pass in a second.
const mostLines = 10

// fewLines is a writer of lines that clients cause, such as of handshakes that break: as many as they like. It lets a few
// pass in each second, and says with the next how many it left out.
type fewLines struct {
	log *slog.Logger

	mu sync.Mutex
	// passed are those since then, left those that were left out.
	since        time.Time
	passed, left int
}

// fewOf is a logger whose lines are warnings of another, a few of them.
func fewOf(l *slog.Logger) *log.Logger { return log.New(&fewLines{log: l}, "", 0) }

// Write takes a line.
func (w *fewLines) Write(line []byte) (int, error) {
	w.take(time.Now(), strings.TrimSpace(string(line)))
	return len(line), nil
}

func (w *fewLines) take(now time.Time, line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.since) >= time.Second {
		if w.left > 0 {
			w.log.Warn("lines about connections were left out", "number", w.left)
		}
		w.since, w.passed, w.left = now, 0, 0
	}
	if w.passed == mostLines {
		w.left++
		return
	}
	w.passed++
	w.log.Warn(line)
}
