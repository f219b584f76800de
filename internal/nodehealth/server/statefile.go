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

// save stores a State that differs from the last. A failure is logged: answering
// goes on.
func (f *stateFile) save(s nodehealth.State) {
	if f.dir == "" || !s.Known {
		return
	}
	state, err := json.Marshal(s)
	if err == nil && bytes.Equal(state, f.saved) {
		return
	}
	if err == nil {
		err = f.write(state)
	}
	if err != nil {
		f.log.Warn("State could not be stored", "error", err)
		return
	}
	f.saved = state
}

// write leaves either the old or the new content, whenever the process dies.
func (f *stateFile) write(content []byte) error {
	name := filepath.Join(f.dir, stateName)
	if err := os.WriteFile(name+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
