package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// linesEvery is how often a line is written where nothing can be redrawn.
const linesEvery = 3 * time.Second

// frame is what there is to see of a roll-out at one moment.
type frame struct {
	elapsed        time.Duration
	phase, summary string
	nodes          []row
	traffic        *reading // nil where none is sent
}

type row struct{ name, balancer, state, pods, reason string }

// screen shows frames: redrawn in place on a terminal, else in a line now and then.
type screen struct {
	out         io.Writer
	live, color bool
	width       func() int
	height      int       // of the frame that stands on the terminal
	said        time.Time // of the last line
}

func newScreen(out *os.File) *screen {
	terminal := term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb"
	return &screen{
		out: out, live: terminal, color: terminal && os.Getenv("NO_COLOR") == "",
		width: func() int {
			if width, _, err := term.GetSize(int(out.Fd())); err == nil && width > 0 {
				return width
			}
			return 80
		},
	}
}

// show shows a frame in the place of the last one.
func (s *screen) show(f frame) {
	if !s.live {
		s.say(f)
		return
	}
	lines := s.draw(f)
	var b strings.Builder
	if s.height > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r\x1b[J", s.height)
	}
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	s.height = len(lines)
	io.WriteString(s.out, b.String())
}

// leave lets the last frame stand.
func (s *screen) leave() { s.height = 0 }

func (s *screen) say(f frame) {
	if time.Since(s.said) < linesEvery {
		return
	}
	s.said = time.Now()
	parts := []string{f.phase}
	parts = append(append(parts, underWay(f.nodes)...), f.summary)
	if f.traffic != nil {
		parts = append(parts, f.traffic.String())
	}
	fmt.Fprintf(s.out, "%4.0f s  %s\n", f.elapsed.Seconds(), strings.Join(parts, " | "))
}

// underWay tells the nodes that wait for something, those that wait for the same
// together.
func underWay(nodes []row) []string {
	var order, out []string
	names := map[string][]string{}
	for _, n := range nodes {
		if n.reason == "" {
			continue
		}
		what := n.state + ": " + n.reason
		if names[what] == nil {
			order = append(order, what)
		}
		names[what] = append(names[what], n.name)
	}
	for _, what := range order {
		out = append(out, enumerate(names[what])+" "+what)
	}
	return out
}

// enumerate names the first few.
func enumerate(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// draw makes the lines of a frame, none longer than the terminal is wide.
func (s *screen) draw(f frame) []string {
	lines := []string{s.paint(bold, s.fit(fmt.Sprintf("%4.0f s  %s", f.elapsed.Seconds(), f.phase), 0))}
	lines = append(lines, s.paint(faint, s.fit(fmt.Sprintf("  %-14s %-12s %-31s %s", "node", "state", "pods", f.balancerTitle()), 0)))
	for _, n := range f.nodes {
		state := fmt.Sprintf("%-12s", n.state)
		lines = append(lines, fmt.Sprintf("  %-14s ", n.name)+s.paint(colorOf(n.state), state)+s.fit(fmt.Sprintf(" %-31s %s", n.pods, n.balancer), 29))
		if n.reason != "" {
			lines = append(lines, s.paint(faint, s.fit("    "+n.reason, 0)))
		}
	}
	lines = append(lines, "  "+s.fit(f.summary, 2))
	if f.traffic != nil {
		color := green
		if f.traffic.failed > 0 {
			color = red
		}
		lines = append(lines, "  "+s.paint(color, s.fit(f.traffic.String(), 2)))
	}
	return lines
}

func (f frame) balancerTitle() string {
	if f.traffic == nil {
		return ""
	}
	return "load balancer"
}

// fit cuts text that begins in some column where the terminal ends.
func (s *screen) fit(text string, column int) string {
	room := max(0, s.width()-column)
	if utf8.RuneCountInString(text) <= room {
		return text
	}
	return string([]rune(text)[:max(0, room-1)]) + "…"
}

const (
	bold   = "1"
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (s *screen) paint(code, text string) string {
	if !s.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func colorOf(state string) string {
	switch state {
	case "Serving", "Ready":
		return green
	case "Pending", "Detaching", "Attaching":
		return yellow
	case "Updating":
		return cyan
	default:
		return red
	}
}
