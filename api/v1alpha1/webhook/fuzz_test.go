package webhook

import (
	"testing"
	"time"
)

// FuzzVerify refuses every signature but that of the body, whatever stands in it.
func FuzzVerify(f *testing.F) {
	secret, now := []byte("0123456789abcdef0123456789abcdef"), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Add("", []byte("{}"))
	f.Add("t=1,v1=", []byte("{}"))
	f.Add("t=9223372036854775807,v1=00,v1=,v2", []byte(""))
	f.Add(Sign(secret, []byte("{}"), now), []byte("{}"))
	f.Fuzz(func(t *testing.T, signature string, body []byte) {
		if err := Verify(secret, Sign(secret, body, now), body, now); err != nil {
			t.Errorf("what is signed is refused: %v", err)
		}
		// Whoever forges one knows the secret.
		if err := Verify([]byte("another secret of the same length"), signature, body, now); err == nil {
			t.Errorf("%q verifies %q", signature, body)
		}
		_ = Verify(secret, signature, body, now)
	})
}
