package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testPrefix = "@ids-proxy-test/"
	// most bytes are read of an answer.
	most = 1 << 10
)

// serves is a proxy that answers with a text until the test ends.
func serves(t *testing.T, pod, text string) *Peers {
	t.Helper()
	p := New("test", pod, 5*time.Second)
	runs(t, p, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) })
	return p
}

func runs(t *testing.T, p *Peers, h http.HandlerFunc) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Answer(ctx, h) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// asked is what all others of a proxy answer, by their keys.
func asked(t *testing.T, p *Peers) map[string]Answer {
	t.Helper()
	all := map[string]Answer{}
	if err := p.AskAll(t.Context(), "/", most, func(a Answer) { all[a.Key] = a }); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestAskAll: all others of a kind answer, and none of another kind; one that is frozen holds up nobody for longer
// than patience, and one that answers too much is read no further.
func TestAskAll(t *testing.T) {
	a, b := serves(t, "web-a", "of a"), serves(t, "web-b", "of b")
	long := serves(t, "web-long", strings.Repeat("x", most+1))
	endless := New("test", "web-endless", 0)
	runs(t, endless, func(w http.ResponseWriter, _ *http.Request) {
		const much = 64 << 20
		if n, _ := io.Copy(w, io.LimitReader(zeros{}, much)); n == much {
			t.Error("all is read of one that has no end")
		}
	})
	frozen := New("test", "web-frozen", 0)
	l, err := net.Listen("unix", frozen.Socket(frozen.Own))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other := New("other", "web-a", 0)
	runs(t, other, func(http.ResponseWriter, *http.Request) { t.Error("one of another kind is asked") })
	a.Patience = time.Second
	await.True(t, "all but the frozen one answer", func() bool {
		began := time.Now()
		all := asked(t, a)
		if took := time.Since(began); took > 5*time.Second {
			t.Fatalf("it takes %s", took)
		}
		_, own := all[a.Own]
		return !own && len(all) == 4 && errors.Is(all[endless.Own].Err, ErrTooMuch) && string(all[b.Own].Content) == "of b" && errors.Is(all[long.Own].Err, ErrTooMuch) && all[long.Own].Content == nil &&
			all[frozen.Own].Err != nil && strings.Contains(all[frozen.Own].Err.Error(), "does not answer within 1s")
	})
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestMost: of however many answer, so many are read.
func TestMost(t *testing.T) {
	asks := New("test", "web", 5*time.Second)
	for range Most + 3 {
		serves(t, "web", "is there")
	}
	await.True(t, "all are asked, and so many read", func() bool {
		read, refused := 0, 0
		for _, a := range asked(t, asks) {
			if string(a.Content) == "is there" {
				read++
			}
			if errors.Is(a.Err, errTooMany) {
				refused++
			}
		}
		return read == Most && refused == 3
	})
}

// TestOtherUsers are neither asked nor answered, nor named.
func TestOtherUsers(t *testing.T) {
	a, b := serves(t, "web-a", "of a"), serves(t, "web-b", "of b")
	await.True(t, "they see each other", func() bool { return string(asked(t, a)[b.Own].Content) == "of b" })
	stranger := New("test", "web-c", 5*time.Second)
	stranger.User++
	if all := asked(t, stranger); len(all) != 0 {
		t.Errorf("one that asks for another user's is told %v", all)
	}
	runs(t, stranger, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "of another") })
	await.True(t, "it listens", func() bool {
		_, err := b.Ask(t.Context(), stranger.Own, "/", most)
		return err != nil && !strings.Contains(err.Error(), "connection refused")
	})
	if content, err := b.Ask(t.Context(), stranger.Own, "/", most); err == nil {
		t.Errorf("one that is asked by another user's says %q", content)
	}
}

// TestNoSocketTable: where nobody can tell which others there are, that is said.
func TestNoSocketTable(t *testing.T) {
	p := New("test", "web", time.Second)
	p.Table = filepath.Join(t.TempDir(), "missing")
	err := p.AskAll(t.Context(), "/", most, func(a Answer) { t.Errorf("%s answers", a.Key) })
	if err == nil || !strings.Contains(err.Error(), "looking for the other proxies") {
		t.Errorf("the error is %v", err)
	}
}

// FuzzSocketTable reads any table: keys in the form of keys, each once and no more than are asked.
func FuzzSocketTable(f *testing.F) {
	const head = "Num       RefCount Protocol Flags    Type St Inode Path\n"
	const line = "0000000000000000: 00000002 00000000 00010000 0001 01 12345 @ids-proxy-test/web-a~0123456789abcdef\n"
	for _, table := range []string{
		"", head, head + line, head + line + line, strings.Replace(line, "00010000", "00000000", 1), strings.Replace(line, "~", "/", 1),
		strings.Replace(line, "web-a", "<script>", 1), line + "0: 1 2 00010000 1 1 1 @ids-proxy-test/ a~0123456789abcdef\n", "\xff\x00",
	} {
		f.Add(table)
	}
	f.Fuzz(func(t *testing.T, table string) {
		keys := keysIn(strings.NewReader(table), testPrefix)
		if len(keys) > maxAsked || !slices.IsSorted(keys) || len(slices.Compact(slices.Clone(keys))) != len(keys) {
			t.Errorf("the keys are %q", keys)
		}
		for _, key := range keys {
			if !keyForm.MatchString(key) || len(socketPrefix)+len("metrics-65535/")+len(key) > 108 {
				t.Errorf("a key is %q", key)
			}
		}
	})
}

// TestKeysIn finds who listens, and nobody else.
func TestKeysIn(t *testing.T) {
	const table = `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 1 @ids-proxy-test/web-b~0123456789abcdef
0000000000000000: 00000003 00000000 00000000 0001 03 2 @ids-proxy-test/web-b~0123456789abcdef
0000000000000000: 00000003 00000000 00000000 0001 03 3
0000000000000000: 00000002 00000000 00010000 0001 01 4 @ids-proxy-test/web-a~0123456789abcdef
0000000000000000: 00000002 00000000 00010000 0001 01 5 /run/ids-proxy-test/web-c~0123456789abcdef
0000000000000000: 00000002 00000000 00010000 0001 01 6 @ids-proxy-test/web-d~0123
0000000000000000: 00000003 00000000 00000000 0001 03 7 @ids-proxy-test/web-e~0123456789abcdef
`
	want := []string{"web-a~0123456789abcdef", "web-b~0123456789abcdef"}
	if got := keysIn(strings.NewReader(table), testPrefix); !slices.Equal(got, want) {
		t.Errorf("found are %q, want %q", got, want)
	}
	var many strings.Builder
	for i := range maxAsked + 1 {
		fmt.Fprintf(&many, "0: 2 0 00010000 1 1 1 @ids-proxy-test/web~%016x\n", i)
	}
	if n := len(keysIn(strings.NewReader(many.String()), testPrefix)); n != maxAsked {
		t.Errorf("of many %d are asked, want %d", n, maxAsked)
	}
}

// TestKeys: a key has the form of keys whatever the pod's name, and is another each time.
func TestKeys(t *testing.T) {
	for _, pod := range []string{"", "web-0", "Web_0", strings.Repeat("long-", 60), "<script>", "\x00\u202e"} {
		a, b := NewKey(pod), NewKey(pod)
		if !keyForm.MatchString(a) || a == b || len(socketPrefix)+len("metrics-65535/")+len(a) > 108 {
			t.Errorf("pod %q has keys %q and %q", pod, a, b)
		}
	}
}
