package subscription

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/holdings"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// told is a transaction with one backend.
func told(t testing.TB, name string) wire.Response {
	t.Helper()
	r := backend(name, "")
	b, err := wire.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	return wire.Response{Position: name, TypeURL: wire.TypeURL,
		Resources: []wire.Delivery{{Name: wire.NameOf(r), Version: wire.Version(b), TypeURL: wire.TypeURL, Value: b}}}
}

// sequences are those of the snapshots in a directory, 0 where there is none that is whole.
func sequences(directory string) (all [2]uint64) {
	f := files{directory: directory}
	for i := range all {
		if s, err := readSnapshot(f.path(uint64(i))); err == nil {
			all[i] = s.Sequence
		}
	}
	return all
}

// TestSnapshotsInTurn: at most one is written in a second, into the two files in turn, that only the proxy
// may read.
func TestSnapshotsInTurn(t *testing.T) {
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "snapshot-1"), []byte("of others"), 0o644); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(directory)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p.keepSnapshot(ctx)
		}()
		change := func() {
			p.take(told(t, "a"))
			p.save()
			synctest.Wait()
		}
		for i, test := range []struct {
			after time.Duration
			want  [2]uint64
		}{
			{time.Hour, [2]uint64{0, 1}},
			{time.Millisecond, [2]uint64{0, 1}},
			{997 * time.Millisecond, [2]uint64{0, 1}},
			{3 * time.Millisecond, [2]uint64{2, 1}},
			{500 * time.Millisecond, [2]uint64{2, 1}},
			{501 * time.Millisecond, [2]uint64{2, 3}},
		} {
			time.Sleep(test.after)
			change()
			if got := sequences(directory); got != test.want {
				t.Errorf("at %d there are %v, want %v", i, got, test.want)
			}
		}
		cancel()
		<-ended
		if got := sequences(directory); got != [2]uint64{4, 3} {
			t.Errorf("at the end there are %v", got)
		}
	})
	for _, name := range []string{"snapshot-0", "snapshot-1"} {
		info, err := os.Stat(filepath.Join(directory, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode(); got != 0o600 {
			t.Errorf("%s has mode %v", name, got)
		}
	}
}

// TestBrokenFile: of two the later whole one is taken, a broken one is said, and the next is written in
// its place.
func TestBrokenFile(t *testing.T) {
	directory := t.TempDir()
	p := newProxy(directory)
	for _, name := range []string{"a", "b", "c"} {
		if err := p.files.write(told(t, name)); err != nil {
			t.Fatal(err)
		}
	}
	read := func(want string, broken ...string) *proxy {
		t.Helper()
		p := newProxy(directory)
		found := p.Restore()
		if found != (want != "") || p.State().Position != want {
			t.Errorf("found is %t, at %q; want %q", found, p.State().Position, want)
		}
		lines := p.logged.with("a snapshot is broken")
		if len(lines) != len(broken) {
			t.Errorf("%d are broken, and it says %q", len(broken), lines)
		}
		for _, name := range broken {
			if len(p.logged.with(filepath.Join(directory, name))) != 1 {
				t.Errorf("%s is broken, and it says %q", name, lines)
			}
		}
		return p
	}
	read("c")
	later := filepath.Join(directory, "snapshot-1")
	if err := os.Truncate(later, 100); err != nil {
		t.Fatal(err)
	}
	p = read("b", "snapshot-1")
	if err := p.files.write(told(t, "d")); err != nil {
		t.Fatal(err)
	}
	read("d")
	if err := p.files.write(told(t, "e")); err != nil {
		t.Fatal(err)
	}
	read("e")
	for _, name := range []string{"snapshot-0", "snapshot-1"} {
		if err := os.WriteFile(filepath.Join(directory, name), make([]byte, 200), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read("", "snapshot-0", "snapshot-1")
	file, err := os.Create(later)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(int64(holdings.MaxSnapshot) + 10); err != nil {
		t.Fatal(err)
	}
	read("", "snapshot-0", "snapshot-1")
}

// TestNotWritten: where no snapshot can be written that is said, and tried again.
func TestNotWritten(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "later")
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(directory)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p.keepSnapshot(ctx)
		}()
		p.take(told(t, "a"))
		p.save()
		synctest.Wait()
		if lines := p.logged.with("the snapshot is not written"); len(lines) != 1 {
			t.Errorf("it says %q", lines)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if lines := p.logged.with("the snapshot is not written"); len(lines) != 1 {
			t.Errorf("it says the same again and again: %q", lines)
		}
		if err := os.Mkdir(directory, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := sequences(directory); got != [2]uint64{0, 1} {
			t.Errorf("there are %v", got)
		}
		cancel()
		<-ended
	})
}
