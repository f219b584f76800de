package subscription

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/holdings"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// files are two, written in turn: while one is written, the other is whole. They outlast the process, not
// the machine, so that nothing is to be flushed.
type files struct {
	directory string
	log       *slog.Logger
	// sequence is that of the last snapshot.
	sequence uint64
}

// path is the file of a snapshot.
func (f *files) path(sequence uint64) string {
	return filepath.Join(f.directory, fmt.Sprint("snapshot-", sequence%2))
}

// setPath is the file that says whose proxy it is.
func (f *files) setPath() string { return filepath.Join(f.directory, "ingressdaemonset") }

// readSet is empty where nobody said whose proxy it is.
func (f *files) readSet() string {
	set, err := os.ReadFile(f.setPath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.log.Error("whose proxy this is cannot be read", "error", err)
	}
	return string(set)
}

// read gives what the later of the two holds. A broken one is passed over, and said.
func (f *files) read() (held wire.Response, found bool) {
	for i := range uint64(2) {
		path := f.path(i)
		s, err := readSnapshot(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			f.log.Error("a snapshot is broken and is passed over", "file", path, "error", err)
		case !found || s.Sequence > f.sequence:
			held, found, f.sequence = s.Held, true, s.Sequence
		}
	}
	return held, found
}

func readSnapshot(path string) (holdings.Snapshot, error) {
	file, err := os.Open(path)
	if err != nil {
		return holdings.Snapshot{}, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, int64(holdings.MaxSnapshot)+1))
	if err != nil {
		return holdings.Snapshot{}, err
	}
	return holdings.DecodeSnapshot(b)
}

// write makes the next snapshot, in the place of the one before the last.
func (f *files) write(held wire.Response) error {
	b, err := holdings.Snapshot{Sequence: f.sequence + 1, Held: held}.Encode()
	if err != nil {
		return fmt.Errorf("encode a snapshot: %w", err)
	}
	if err := writeSecret(f.path(f.sequence+1), b); err != nil {
		return err
	}
	f.sequence++
	return nil
}

// writeSecret writes a file that only its owner may read, also where it was there.
func writeSecret(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = file.Chmod(0o600)
	if err == nil {
		_, err = file.Write(content)
	}
	return errors.Join(err, file.Close())
}
