package aws

import (
	"errors"
	"testing"
	"time"
)

func TestMemory(t *testing.T) {
	reads := 0
	read := func() (map[string]string, error) {
		reads++
		return map[string]string{"k": "v"}, nil
	}
	fails := errors.New("throttled")
	failing := func() (map[string]string, error) { return nil, fails }

	m := newMemory(time.Hour)
	if _, err := m.get("a", failing); !errors.Is(err, fails) {
		t.Errorf("%v, want the error of reading", err)
	}
	for range 2 {
		if values, err := m.get("a", read); err != nil || values["k"] != "v" || reads != 1 {
			t.Errorf("%v %v after %d reads: want one read, that which succeeded", values, err, reads)
		}
	}
	m.forget()
	if m.get("a", read); reads != 1 {
		t.Error("what is good is forgotten")
	}
	if m.get("b", read); reads != 2 {
		t.Error("one group has the attributes of another")
	}

	m = newMemory(-1)
	reads = 0
	for want := range 3 {
		if m.get("a", read); reads != want+1 {
			t.Error("what is out of date is believed")
		}
	}
	if m.forget(); len(m.entries) > 0 {
		t.Error("what is out of date is kept")
	}
	if newMemory(0).lasts != defaultAttributesFor {
		t.Error("no default")
	}
}
