package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock takes every renewal, or none.
type lock struct {
	resourcelock.Interface
	err error
}

func (l *lock) Identity() string { return "us" }

func (l *lock) Create(context.Context, resourcelock.LeaderElectionRecord) error { return l.err }

func (l *lock) Update(context.Context, resourcelock.LeaderElectionRecord) error { return l.err }

// TestLeaseIsHeld goes by when the last renewal was sent, so that a process that was frozen
// knows that another one may lead by now.
func TestLeaseIsHeld(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	under := &lock{}
	l := &lease{Interface: under, now: func() time.Time { return now }}
	ours := resourcelock.LeaderElectionRecord{HolderIdentity: "us"}
	says := func(what string, want bool) {
		t.Helper()
		if l.leads() != want {
			t.Errorf("%s: leads %t", what, !want)
		}
	}
	says("before it is elected", false)
	if err := l.Create(t.Context(), ours); err != nil {
		t.Fatal(err)
	}
	says("elected", true)
	now = now.Add(renewDeadline - 1)
	says("before the deadline", true)
	now = now.Add(1)
	says("at the deadline", false)
	if err := l.Update(t.Context(), ours); err != nil {
		t.Fatal(err)
	}
	says("renewed", true)
	now = now.Add(10 * time.Minute)
	says("frozen for 10 minutes", false)
	under.err = errors.New("another one holds it")
	if err := l.Update(t.Context(), ours); err == nil {
		t.Fatal("it is renewed")
	}
	says("refused", false)
	under.err = nil
	if err := l.Update(t.Context(), ours); err != nil {
		t.Fatal(err)
	}
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
		t.Fatal(err)
	}
	says("let go", false)
}
