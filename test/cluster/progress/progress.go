// Package progress says how far long steps are: when each begins, how far it is while it lasts, and how
// long it took. On a terminal that is a line in place, elsewhere a line now and then.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// long is after how long a step says how far it is. Where nothing can be redrawn it says so again each
// time that it has taken twice as long: five times in five minutes.
const long = 10 * time.Second

// redrawn is how often the line of a terminal is drawn.
const redrawn = time.Second

// Log is what a program says of its steps. Several may be under way at the same time.
type Log struct {
	out io.Writer
	// width is that of the terminal; nil where nothing can be redrawn.
	width func() int

	mu sync.Mutex
	// open are the steps under way, in the order in which they began.
	open []*Step
	// drawn says whether the line of the steps under way stands on the terminal.
	drawn bool
}

// To is a Log on a file or another writer; without one, nil, nothing is said. Whoever writes there while a
// step is under way does it by Say.
func To(out io.Writer) *Log {
	if out == nil {
		return &Log{out: io.Discard}
	}
	l := &Log{out: out}
	file, ok := out.(*os.File)
	if ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb" {
		l.width = func() int {
			if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
				return width
			}
			return 80
		}
	}
	return l
}

// Say writes a line.
func (l *Log) Say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line(fmt.Sprintf(format, args...))
}

// Step is something that takes a while.
type Step struct {
	log   *Log
	what  string
	begun time.Time
	// far is how far it is, in words; empty where nobody knows.
	far string
	// end is closed by Done, ended when nothing more is said of the step.
	end, ended chan struct{}
	once       sync.Once
}

// Step says that something begins. Done is to be called, whatever becomes of it.
func (l *Log) Step(format string, args ...any) *Step {
	s := &Step{log: l, what: fmt.Sprintf(format, args...), begun: time.Now(), end: make(chan struct{}), ended: make(chan struct{})}
	l.mu.Lock()
	l.line(s.what)
	l.open = append(l.open, s)
	l.mu.Unlock()
	go s.tell()
	return s
}

// Far says how far the step is, such as "2 of 3 nodes are ready". It is shown with the time that the step has
// taken, when that is to be said next.
func (s *Step) Far(format string, args ...any) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.far = fmt.Sprintf(format, args...)
}

// Done ends the step, and says how long it took where it was long. It may be called again.
func (s *Step) Done() {
	s.once.Do(func() {
		close(s.end)
		<-s.ended
		l := s.log
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, other := range l.open {
			if other == s {
				l.open = append(l.open[:i:i], l.open[i+1:]...)
				break
			}
		}
		if took := time.Since(s.begun); took >= long {
			l.line(fmt.Sprintf("%s: took %s", name(s.what), took.Round(time.Second)))
			return
		}
		l.erase()
	})
}

// tell says how far the step is, until it ends.
func (s *Step) tell() {
	defer close(s.ended)
	wait := long
	if s.log.width != nil {
		wait = redrawn
	}
	for {
		timer := time.NewTimer(wait)
		select {
		case <-s.end:
			timer.Stop()
			return
		case <-timer.C:
		}
		s.log.mu.Lock()
		if s.log.width != nil {
			s.log.draw()
		} else {
			s.log.line("  " + s.state())
			wait = time.Since(s.begun)
		}
		s.log.mu.Unlock()
	}
}

// state is how far the step is.
func (s *Step) state() string {
	parts := []string{name(s.what) + ": " + time.Since(s.begun).Round(time.Second).String()}
	if s.far != "" {
		parts = append(parts, s.far)
	}
	return strings.Join(parts, ", ")
}

// name is what a step is called when it began a while ago: without what was said in brackets.
func name(what string) string {
	short, _, _ := strings.Cut(what, " (")
	return short
}

// line writes a line that stays. The caller holds the lock, as those of erase and draw do.
func (l *Log) line(text string) {
	l.erase()
	fmt.Fprintln(l.out, text)
}

// erase takes the line of the steps under way off the terminal.
func (l *Log) erase() {
	if l.drawn {
		io.WriteString(l.out, "\r\x1b[K")
		l.drawn = false
	}
}

// draw shows all steps under way, in the place of what was shown of them.
func (l *Log) draw() {
	var states []string
	for _, s := range l.open {
		states = append(states, s.state())
	}
	text := []rune("  " + strings.Join(states, "; "))
	if room := l.width() - 1; len(text) > room {
		text = append(text[:max(0, room-1)], '…')
	}
	l.erase()
	io.WriteString(l.out, string(text))
	l.drawn = true
}
