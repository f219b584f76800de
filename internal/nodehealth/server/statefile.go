package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
)

const stateName = "state.json"

// stateFile keeps the last State for the next start of the container. Without a
// folder it keeps nothing.
type stateFile struct {
	dir   string
	log   *slog.Logger
	saved []byte
}

// load returns a State that knows nothing where none is stored for the subject.
func (f *stateFile) load(subject nodehealth.Subject) nodehealth.State {
	unknown := nodehealth.State{Node: subject.Node}
	if f.dir == "" {
		return unknown
	}
	s, err := f.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return unknown
	case err != nil:
		f.log.Warn("Stored state is ignored", "error", err)
		return unknown
	case s.Node != subject.Node || !s.Known:
		f.log.Warn("Stored state is ignored", "node", s.Node)
		return unknown
	}
	s.Cold = true
	return s
}

func (f *stateFile) read() (s nodehealth.State, err error) {
	stored, err := os.ReadFile(filepath.Join(f.dir, stateName))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(stored, &s); err != nil {
		return s, fmt.Errorf("decoding: %w", err)
	}
	return s, nil
}

// save stores a State that differs from the last, and reports whether nothing older is stored
// any more: where the disk is full it removes what there is, since a checker that knows
// nothing is better than one that has not seen a mark.
func (f *stateFile) save(s nodehealth.State) bool {
	if f.dir == "" || !s.Known {
		return true
	}
	state, err := json.Marshal(s)
	if err == nil && bytes.Equal(state, f.saved) {
		return true
	}
	if err == nil {
		err = f.write(state)
	}
	if err == nil {
		f.saved = state
		return true
	}
	f.saved = nil
	removed := f.remove()
	f.log.Warn("State could not be stored", "error", err, "removing", removed)
	return removed == nil
}

// write leaves either the old or the new content, whenever the process or the machine dies.
func (f *stateFile) write(content []byte) error {
	name := filepath.Join(f.dir, stateName)
	file, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	return f.sync()
}

func (f *stateFile) remove() error {
	for _, name := range []string{stateName + ".new", stateName} {
		if err := os.Remove(filepath.Join(f.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return f.sync()
}

// sync makes a change of the folder last.
func (f *stateFile) sync() error {
	dir, err := os.Open(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
