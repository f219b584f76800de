package kubectl

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"
)

// canvas draws text over the text that it drew before, on a terminal.
type canvas struct {
	out io.Writer
	// size gives the columns and rows of the terminal.
	size func() (columns, rows int)
	// drawn is how many rows the last text took.
	drawn int
}

// redrawn is what shows something in place on a terminal, until the context ends; nil elsewhere.
func redrawn[T any](ctx context.Context, out io.Writer, text func(T) string) *live[T] {
	size := sizeOf(out)
	if size == nil {
		return nil
	}
	view := &live[T]{text: text, draw: (&canvas{out: out, size: size}).draw}
	go view.tick(ctx)
	return view
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// draw draws text that ends with a newline. What is higher than the terminal begins
// at its top, and its head scrolls away.
func (c *canvas) draw(text string) error {
	columns, rows := c.size()
	over := ""
	switch {
	case c.drawn >= rows:
		over = "\x1b[H\x1b[2J"
	case c.drawn > 0:
		over = fmt.Sprintf("\x1b[%dA\x1b[J", c.drawn)
	}
	c.drawn = rowsOf(text, columns)
	_, err := io.WriteString(c.out, over+text)
	return err
}

// rowsOf is how many rows of a terminal a text takes.
func rowsOf(text string, columns int) int {
	rows := 0
	for line := range strings.Lines(escapes.ReplaceAllString(text, "")) {
		width := runewidth.StringWidth(strings.TrimSuffix(line, "\n"))
		rows += max(1, (width+columns-1)/columns)
	}
	return rows
}

// live shows something anew each time that it changes, and every second, since ages
// and remaining times pass. While the API server is away, the last picture stays as it is: it cannot be
// known how far its times have come. Below stands for how long that is so.
type live[T any] struct {
	text func(T) string
	draw func(string) error

	mu      sync.Mutex
	last    *T
	picture string
	outage  outage
}

func (l *live[T]) changed(value T) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last, l.outage = &value, outage{}
	return l.show()
}

// away is told each time that the API server was asked in vain.
func (l *live[T]) away(lasts outage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outage = lasts
	_ = l.show()
}

func (l *live[T]) show() error {
	if l.outage.err == nil {
		l.picture = l.text(*l.last)
	}
	return l.draw(l.picture + l.outage.text(time.Now()))
}

// tick returns when ctx is over.
func (l *live[T]) tick(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		l.mu.Lock()
		if l.last != nil && ctx.Err() == nil {
			// What cannot be written now cannot be written at the next change either,
			// which ends the command.
			_ = l.show()
		}
		l.mu.Unlock()
	}
}
