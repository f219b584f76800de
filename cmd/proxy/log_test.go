package main

import (
	"fmt"
	"log/slog"
	"testing"
	"time"
)

// TestFewLines: ten a second pass, and with the next it is said how many did not.
func TestFewLines(t *testing.T) {
	log := &lines{}
	w := &fewLines{log: slog.New(slog.NewTextHandler(log, nil))}
	begun := time.Now()
	for i := range 1000 {
		w.take(begun.Add(time.Duration(i)*time.Millisecond/2), fmt.Sprint("handshake ", i))
	}
	if n := log.with("handshake"); n != mostLines || log.with("left out") > 0 {
		t.Errorf("%d lines passed:\n%s", n, log)
	}
	w.take(begun.Add(time.Second), "handshake later")
	if log.with("level=WARN msg=\"handshake later\"") != 1 || log.with("left out\" number=990") != 1 {
		t.Errorf("then it says\n%s", log)
	}
	w.take(begun.Add(time.Hour), "handshake much later")
	if log.with("left out") != 1 {
		t.Errorf("it says what it left out again:\n%s", log)
	}
}
