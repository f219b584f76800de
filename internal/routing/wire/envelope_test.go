package wire

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestEnvelope: messages are read as they were written.
func TestEnvelope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		asked, said := request(t), response(t)
		b, err := asked.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := DecodeRequest(b); err != nil || !cmp.Equal(asked, back) {
			t.Fatalf("%x: %v %s", b, err, cmp.Diff(asked, back))
		}
		if b, err = said.Encode(); err != nil {
			t.Fatal(err)
		}
		if back, err := DecodeResponse(b); err != nil || !cmp.Equal(said, back) {
			t.Fatalf("%x: %v %s", b, err, cmp.Diff(said, back))
		}
	})
}

// TestEnvelopeOfOthers: fields come in any order, twice, of zero, and some are not known.
func TestEnvelopeOfOthers(t *testing.T) {
	b, err := hex.DecodeString("32016f" + "3206" + "6e6f6e636561" + "1201" + "74" + "0a05" + "1a00" + "0a0161" +
		"2a04" + "0a00" + "1200" + "2a03" + "12016b" + "0a03" + "0a0162" + "1a0173" + "3a02" + "0805" + "3a06" + "1201" + "6d" + "1a0161" + "4200")
	if err != nil {
		t.Fatal(err)
	}
	want := Request{Node: "b", TypeURL: "t", Nonce: "noncea", Versions: map[string]string{"": "k"}, Error: &Status{Code: 5, Message: "m"}}
	got, err := DecodeRequest(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestEnvelopeRefused: what is no such message is an error.
func TestEnvelopeRefused(t *testing.T) {
	for _, test := range []struct{ hex, say string }{
		{"0a", "ends within"},
		{"0801", "another type"},
		{"1001", "another type"},
		{"120161" + "2a030a01ff", "UTF-8"},
		{"2a020801", "another type"},
		{"3a020a00", "another type"},
		{"3a03120261", "ends within"},
		{"3201ff", "UTF-8"},
		{"3801", "another type"},
		{"0b0c", "group"},
	} {
		b, err := hex.DecodeString(test.hex)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := DecodeRequest(b); err == nil || !strings.Contains(err.Error(), test.say) {
			t.Errorf("%s: got %+v, %v; want an error with %q", test.hex, m, err, test.say)
		}
	}
	for _, test := range []struct{ hex, say string }{
		{"0801", "another type"},
		{"1001", "another type"},
		{"12020801", "another type"},
		{"120412020801", "another type"},
		{"12021801", "another type"},
		{"120412021001", "another type"},
		{"2201ff", "UTF-8"},
		{"3001", "another type"},
	} {
		b, err := hex.DecodeString(test.hex)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := DecodeResponse(b); err == nil || !strings.Contains(err.Error(), test.say) {
			t.Errorf("%s: got %+v, %v; want an error with %q", test.hex, m, err, test.say)
		}
	}
}

// TestEnvelopeBound: a message has at most 64 MiB.
func TestEnvelopeBound(t *testing.T) {
	m := Response{Resources: []Delivery{{Value: make([]byte, MaxMessage-32)}}}
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeResponse(b); err != nil {
		t.Error(err)
	}
	if _, err := DecodeResponse(append(b, make([]byte, 32)...)); err == nil || !strings.Contains(err.Error(), "more than 67108864") {
		t.Errorf("got %v, want that it is too long", err)
	}
	m.Nonce = strings.Repeat("n", 32)
	if _, err := m.Encode(); err == nil || !strings.Contains(err.Error(), "more than 67108864") {
		t.Errorf("got %v, want that it is too long", err)
	}
	if _, err := (Request{Nonce: "\xff"}).Encode(); err == nil {
		t.Error("a nonce that is not UTF-8 is written")
	}
}

// FuzzRequest reads any bytes or refuses them, and writes what was read in one way only.
func FuzzRequest(f *testing.F) {
	for i := range 20 {
		b, err := rapid.Custom(request).Example(i).Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeRequest(b)
		if err != nil {
			return
		}
		canonical, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeRequest(canonical)
		if err != nil || !cmp.Equal(m, back) {
			t.Fatalf("%x: %v %s", canonical, err, cmp.Diff(m, back))
		}
		if again, err := back.Encode(); err != nil || !bytes.Equal(canonical, again) {
			t.Fatalf("%x is written again as %x: %v", canonical, again, err)
		}
	})
}

// FuzzResponse is FuzzRequest the other way.
func FuzzResponse(f *testing.F) {
	for i := range 20 {
		b, err := rapid.Custom(response).Example(i).Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeResponse(b)
		if err != nil {
			return
		}
		canonical, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeResponse(canonical)
		if err != nil || !cmp.Equal(m, back) {
			t.Fatalf("%x: %v %s", canonical, err, cmp.Diff(m, back))
		}
		if again, err := back.Encode(); err != nil || !bytes.Equal(canonical, again) {
			t.Fatalf("%x is written again as %x: %v", canonical, again, err)
		}
	})
}
