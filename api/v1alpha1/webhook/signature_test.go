package webhook

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	key  = []byte(strings.Repeat("k", MinSecret))
	body = []byte(`{"id":"a","action":"detach","node":{"name":"n1"}}`)
	noon = time.Unix(1_800_000_000, 0)
)

// The signature is as OpenSSL makes it:
//
//	printf '1800000000.{"id":"a","action":"detach","node":{"name":"n1"}}' |
//	  openssl dgst -sha256 -hmac kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk
const ofOpenSSL = "0a19a9dd5b8b48ac50625495854a0859c22c8211f9d360abcba552b2d9577444"

func TestSignatureIsWhatOthersMake(t *testing.T) {
	if got, want := Sign(key, body, noon), "t=1800000000,v1="+ofOpenSSL; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestVerify(t *testing.T) {
	good := Sign(key, body, noon)
	other := Sign(bytes.Repeat([]byte("o"), MinSecret), body, noon)
	_, otherMAC, _ := strings.Cut(other, ",")
	for _, test := range []struct {
		name, signature string
		secret          []byte
		now             time.Time
		want            string
	}{
		{"good", good, key, noon, ""},
		{"five minutes old", good, key, noon.Add(Tolerance), ""},
		{"from a clock ahead", good, key, noon.Add(-Tolerance), ""},
		{"replayed", good, key, noon.Add(Tolerance + time.Second), "5m1s ago: more than 5m0s away"},
		{"from the future", good, key, noon.Add(-Tolerance - time.Second), "-5m1s ago"},
		{"from the end of time", Sign(key, body, time.Unix(math.MaxInt64, 0)), key, noon, "more than"},
		{"two secrets, one right", good + "," + otherMAC, key, noon, ""},
		{"two secrets, the other right", strings.Replace(good, ",", ","+otherMAC+",", 1), key, noon, ""},
		{"a later scheme beside it", good + ",v2=abc", key, noon, ""},
		{"other secret", other, key, noon, "not of this body"},
		{"upper case", strings.ToUpper(good), key, noon, "must be t="},
		{"an empty element", good + ",", key, noon, "not KEY=VALUE"},
		{"cut", good[:len(good)-1], key, noon, "not of this body"},
		{"two times", good + ",t=1800000001", key, noon, "two times"},
		{"no time", good[strings.Index(good, "v1"):], key, noon, "must be t="},
		{"no signature", "t=1800000000", key, noon, "must be t="},
		{"empty signature", "t=1800000000,v1=", key, noon, "not of this body"},
		{"a time of words", strings.Replace(good, "1800000000", "noon", 1), key, noon, `t is "noon"`},
		{"the time written otherwise", strings.Replace(good, "t=", "t=0", 1), key, noon, "not of this body"},
		{"nothing", "", key, noon, "not KEY=VALUE"},
		{"no secret", Sign(nil, body, noon), nil, noon, "openssl rand"},
	} {
		err := Verify(test.secret, test.signature, body, test.now)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// TestVerifyAcceptsOnlyWhatSignMade changes one thing of what was signed.
func TestVerifyAcceptsOnlyWhatSignMade(t *testing.T) {
	secrets := rapid.SliceOfN(rapid.Byte(), MinSecret, 2*MinSecret)
	rapid.Check(t, func(t *rapid.T) {
		secret, body := secrets.Draw(t, "secret"), rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		at := time.Unix(rapid.Int64Range(0, 1<<40).Draw(t, "at"), 0)
		now := at.Add(time.Duration(rapid.Int64Range(-int64(Tolerance), int64(Tolerance)).Draw(t, "away")))
		signature := Sign(secret, body, at)
		if err := Verify(secret, signature, body, now); err != nil {
			t.Fatalf("%s: %v", signature, err)
		}
		refused := func(what string, secret []byte, signature string, body []byte, now time.Time) {
			if Verify(secret, signature, body, now) == nil {
				t.Errorf("accepted with %s: %s", what, signature)
			}
		}
		// HMAC fills a key that is shorter than its block up with zeros.
		if another := changed(t, secret); !bytes.Equal(bytes.TrimRight(another, "\x00"), bytes.TrimRight(secret, "\x00")) {
			refused("another secret", another, signature, body, now)
		}
		refused("another body", secret, signature, changed(t, body), now)
		refused("another signature", secret, string(changed(t, []byte(signature))), body, now)
		_, mac, _ := strings.Cut(signature, ",")
		later := at.Add(time.Duration(rapid.Int64Range(1, 100).Draw(t, "later")) * time.Second)
		refused("another time", secret, fmt.Sprintf("t=%d,%s", later.Unix(), mac), body, now)
		refused("a clock too late", secret, signature, body, at.Add(Tolerance+1))
		refused("a clock too early", secret, signature, body, at.Add(-Tolerance-1))
	})
}

// changed has one byte more, less or other.
func changed(t *rapid.T, original []byte) []byte {
	out := bytes.Clone(original)
	at := rapid.IntRange(0, len(out)).Draw(t, "changed at")
	how := rapid.SampledFrom([]string{"more", "less", "other"}).Draw(t, "how")
	switch {
	case how == "more" || at == len(out):
		return append(out[:at:at], append([]byte{rapid.Byte().Draw(t, "byte")}, out[at:]...)...)
	case how == "less":
		return append(out[:at], out[at+1:]...)
	}
	out[at] ^= rapid.ByteRange(1, 255).Draw(t, "bits")
	return out
}

// TestVerifyRefusesWhatNobodySigned draws what looks like signatures.
func TestVerifyRefusesWhatNobodySigned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		signature := rapid.StringMatching(`(t=18000000[0-9]{2}|v1=[0-9a-f]{64}|v1=|t=|,|=){0,6}`).Draw(t, "signature")
		if Verify(key, signature, body, noon) == nil {
			t.Errorf("accepted: %s", signature)
		}
	})
}

func TestSecret(t *testing.T) {
	for content, want := range map[string]string{
		string(key):             string(key),
		string(key) + "\n":      string(key),
		string(key) + "\r\n\n":  string(key),
		" " + string(key) + " ": " " + string(key) + " ",
		string(key[1:]) + "\n":  "",
		"":                      "",
	} {
		got, err := Secret([]byte(content))
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), "fewer than 32") {
				t.Errorf("%q: %v", content, err)
			}
			continue
		}
		if err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", content, got, err)
		}
	}
}
