// Package recorded holds recordings, for tests, of what the real Deployment controller does to
// ReplicaSets when a Deployment is written as the controller of this project writes it.
// test/api/controller records it on a real control plane and compares in each run
// where it ends; the fakes of the simulation must do the same.
package recorded

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// Recording is a Deployment and what was written to it, one after the other.
type Recording struct {
	Name string `json:"-"`
	// About says what is shown.
	About  string  `json:"about"`
	Writes []Write `json:"writes"`
}

// Write is a change of the Deployment and what followed until nothing moved any
// more.
type Write struct {
	// Revision is the pod template. Pods of one whose name begins with "bad" never
	// become ready.
	Revision string `json:"revision"`
	Replicas int32  `json:"replicas"`
	Paused   bool   `json:"paused,omitempty"`
	// Surge and Unavailable are maxSurge and maxUnavailable, in pods.
	Surge       int32 `json:"surge"`
	Unavailable int32 `json:"unavailable"`
	// Sets are the replicas of each revision's ReplicaSet that has any, each time
	// that one changed.
	Sets []Sizes `json:"sets"`
}

// Sizes are the replicas by revision, without those of 0.
type Sizes map[string]int32

// Ready reports whether pods of a revision become ready.
func Ready(revision string) bool { return !strings.HasPrefix(revision, "bad") }

// Dir is the folder of the recordings, below the module's root.
const Dir = "internal/rollout/recorded"

//go:embed *.json
var files embed.FS

// Load gives all recordings.
func Load() ([]Recording, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var out []Recording
	for _, entry := range entries {
		data, err := files.ReadFile(entry.Name())
		if err != nil {
			return nil, err
		}
		r := Recording{Name: strings.TrimSuffix(entry.Name(), path.Ext(entry.Name()))}
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		out = append(out, r)
	}
	return out, nil
}
