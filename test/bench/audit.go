package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
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
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		if e.writes() {
			out.count(e)
		}
	}
}

type event struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	RequestURI     string `json:"requestURI"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

func (e *event) writes() bool {
	switch e.Verb {
	case "get", "list", "watch":
		return false
	}
	return e.ObjectRef.Resource != "" && !strings.Contains(e.RequestURI, "dryRun=All")
}

func (w writes) count(e event) {
	user := e.User.Username[strings.LastIndex(e.User.Username, ":")+1:]
	if w[user] == nil {
		w[user] = map[string]int{}
	}
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	if e.ResponseStatus.Code >= 300 {
		resource += " refused"
	}
	w[user][resource]++
}
