package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/test/audit"
)

// writes are how often each user wrote to each resource. What was refused for
// being outdated counts apart, as "deployments refused": it changed nothing.
type writes map[string]map[string]int

// auditSize is how far the audit log has been written.
func auditSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// countWrites counts the writes that the audit log holds from one offset to another.
func countWrites(path string, from, to int64) (writes, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	out := writes{}
	lines := bufio.NewReaderSize(io.NewSectionReader(file, from, to-from), 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var e audit.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		if changes(e) {
			out.count(e)
		}
	}
}

// changes reports whether a request is to change something.
func changes(e audit.Event) bool {
	switch e.Verb {
	case "get", "list", "watch":
		return false
	}
	return e.ObjectRef.Resource != "" && !strings.Contains(e.RequestURI, "dryRun=All")
}

func (w writes) count(e audit.Event) {
	user := e.User.Username[strings.LastIndex(e.User.Username, ":")+1:]
	if w[user] == nil {
		w[user] = map[string]int{}
	}
	resource := e.ObjectRef.String()
	if e.Response.Code >= 300 {
		resource += " refused"
	}
	w[user][resource]++
}
