package progress

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// wait lets so many seconds pass, and all that happens in them.
func wait(seconds int) {
	time.Sleep(time.Duration(seconds) * time.Second)
	synctest.Wait()
}

// TestElsewhere: where nothing can be redrawn, a step that lasts says so after 10 s and then each time that it
// has taken twice as long, and nothing goes back in a line.
func TestElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		l := To(&out)
		s := l.Step("building kubelet v1 (7/12, about 20 s when nothing is cached)")
		wait(9)
		if got := out.String(); strings.Count(got, "\n") != 1 {
			t.Errorf("before 10 s it says %q", got)
		}
		wait(2)
		s.Far("7 of 12")
		wait(150)
		s.Done()
		s.Done()
		wait(100)
		want := strings.Join([]string{
			"building kubelet v1 (7/12, about 20 s when nothing is cached)",
			"  building kubelet v1: 10s",
			"  building kubelet v1: 20s, 7 of 12",
			"  building kubelet v1: 40s, 7 of 12",
			"  building kubelet v1: 1m20s, 7 of 12",
			"  building kubelet v1: 2m40s, 7 of 12",
			"building kubelet v1: took 2m41s",
			"",
		}, "\n")
		if got := out.String(); got != want {
			t.Errorf("it says\n%s\nand not\n%s", got, want)
		}
	})
}

// TestShortSteps are said once.
func TestShortSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		l := To(&out)
		first, second := l.Step("first"), l.Step("second")
		wait(3)
		first.Done()
		wait(3)
		second.Done()
		l.Say("%d done", 2)
		if got := out.String(); got != "first\nsecond\n2 done\n" {
			t.Errorf("it says %q", got)
		}
		if len(l.open) > 0 {
			t.Errorf("%d steps are still under way", len(l.open))
		}
	})
}

// TestTerminal redraws one line for all steps under way, which leaves when something is said that stays.
func TestTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		l := To(&out)
		l.width = func() int { return 32 }
		nodes := l.Step("starting 3 nodes")
		nodes.Far("2 of 3 are ready")
		wait(1)
		const over = "\r\x1b[K"
		if got, want := out.String(), "starting 3 nodes\n  starting 3 nodes: 1s, 2 of 3…"; got != want {
			t.Errorf("it draws %q, want %q", got, want)
		}
		out.Reset()
		l.Say("said")
		if got, want := out.String(), over+"said\n"; got != want {
			t.Errorf("over the line stands %q, want %q", got, want)
		}
		out.Reset()
		more := l.Step("more")
		nodes.Done()
		wait(1)
		if got, want := out.String(), "more\n  more: 1s"; got != want {
			t.Errorf("of the step that is left it draws %q, want %q", got, want)
		}
		out.Reset()
		more.Done()
		if got := out.String(); got != over {
			t.Errorf("at the end stands %q", got)
		}
	})
}

// TestNobodyListens says nothing without a writer, and redraws nothing in a file.
func TestNobodyListens(t *testing.T) {
	To(nil).Step("unheard").Done()
	file, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if To(file).width != nil {
		t.Error("a file is taken for a terminal")
	}
}
