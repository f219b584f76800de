package golden

import (
	"fmt"
	"strings"
	"time"
)

// Story is what happens in a test, as it is told in a file: when, who and what, a line for each.
type Story struct {
	// Said is what was told last of something that goes on, by what it is about.
	Said map[string]string

	layout string
	now    func() time.Time
	began  time.Time
	out    strings.Builder
}

// NewStory tells by a clock. The layout makes a line, without its end, of the seconds since the story
// began, who, and what.
func NewStory(layout string, now func() time.Time) *Story {
	return &Story{Said: map[string]string{}, layout: layout, now: now, began: now()}
}

// Begin lets the story begin now, with what it shows. What was told before is left out.
func (s *Story) Begin(about string) {
	s.began = s.now()
	s.out.Reset()
	fmt.Fprintf(&s.out, "%s\n\n", about)
}

// Line tells what somebody does.
func (s *Story) Line(who, what string) {
	fmt.Fprintf(&s.out, s.layout+"\n", s.At(s.now()), who, what)
}

// Linef is Line with what formatted.
func (s *Story) Linef(who, format string, args ...any) { s.Line(who, fmt.Sprintf(format, args...)) }

// Say tells what is so of something from now on, once.
func (s *Story) Say(who, about, what string) {
	if s.Said[about] != what {
		s.Said[about] = what
		s.Line(who, what)
	}
}

// At is a moment in seconds of the story.
func (s *Story) At(moment time.Time) string {
	return fmt.Sprintf("%.2fs", moment.Sub(s.began).Seconds())
}

// String is what was told.
func (s *Story) String() string { return s.out.String() }
