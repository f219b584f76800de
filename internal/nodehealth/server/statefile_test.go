package server

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
)

var n1 = nodehealth.Subject{Node: "n1", Name: "web", UID: "web-uid"}

func rich() nodehealth.State {
	s := marked("m")
	s.LostAt = time.Date(2026, 1, 1, 0, 0, 0, 5, time.UTC)
	s.Pods[0].Containers = []nodehealth.ContainerState{{Name: "app", Ready: true, Probe: httpProbe(intstr.FromInt32(80), "/ok", corev1.HTTPHeader{Name: "A", Value: "b"})}}
	return s
}

func TestStateFileKeepsState(t *testing.T) {
	dir := t.TempDir()
	file := stateFile{dir: dir, log: quiet}
	file.save(rich())
	want := rich()
	want.Cold = true
	if diff := cmp.Diff(want, (&stateFile{dir: dir, log: quiet}).load(n1)); diff != "" {
		t.Error(diff)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v (%v), want only the state", entries, err)
	}
}

func TestStateFileIsWrittenOnlyOnChange(t *testing.T) {
	dir := t.TempDir()
	file := stateFile{dir: dir, log: quiet}
	file.save(serving())
	if err := os.Remove(filepath.Join(dir, stateName)); err != nil {
		t.Fatal(err)
	}
	file.save(serving())
	if got := file.load(n1); got.Known {
		t.Error("the same state is written twice")
	}
	file.save(marked("m"))
	if got := file.load(n1); !got.Known || got.Deployment.Mark == nil {
		t.Errorf("a change is not written: %+v", got)
	}
}

func TestStateFileThatCannotBeUsedIsIgnored(t *testing.T) {
	for name, content := range map[string]string{
		"empty":           "",
		"cut":             `{"node":"n1","known":true,"pods":[{"ui`,
		"of another type": `{"node":"n1","known":true,"pods":7}`,
		"another node's":  `{"node":"n2","known":true}`,
		"unknown":         `{"node":"n1"}`,
		"not JSON":        strings.Repeat("\x00", 100),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, stateName), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			file := stateFile{dir: dir, log: slog.New(slog.NewTextHandler(&log, nil))}
			if diff := cmp.Diff(nodehealth.State{Node: "n1"}, file.load(n1)); diff != "" {
				t.Error(diff)
			}
			if !strings.Contains(log.String(), "Stored state is ignored") {
				t.Errorf("log is %q", log.String())
			}
		})
	}
}

// TestFullDiskLeavesNoOldState forgets what it cannot replace: a state of before a mark
// would have a restarted checker answer 200 on a node that is being updated.
func TestFullDiskLeavesNoOldState(t *testing.T) {
	dir := t.TempDir()
	file := stateFile{dir: dir, log: quiet}
	file.save(serving())
	if err := os.Symlink("/dev/full", filepath.Join(dir, stateName+".new")); err != nil {
		t.Fatal(err)
	}
	if !file.save(marked("m")) {
		t.Error("the old state could not be removed")
	}
	if got := file.load(n1); got.Known {
		t.Errorf("what is left is %+v", got)
	}
	if !file.save(marked("m")) || file.load(n1).Deployment.Mark == nil {
		t.Error("the mark is not stored when there is room again")
	}
}

func TestNoStateFile(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		var log bytes.Buffer
		file := stateFile{dir: dir, log: slog.New(slog.NewTextHandler(&log, nil))}
		if got := file.load(n1); got.Known || log.Len() > 0 {
			t.Errorf("folder %q: state %+v, log %q", dir, got, log.String())
		}
	}
}

func TestStateFileInFolderThatIsGone(t *testing.T) {
	var log bytes.Buffer
	file := stateFile{dir: filepath.Join(t.TempDir(), "gone"), log: slog.New(slog.NewTextHandler(&log, nil))}
	file.save(serving())
	if !strings.Contains(log.String(), "State could not be stored") {
		t.Errorf("log is %q", log.String())
	}
}
