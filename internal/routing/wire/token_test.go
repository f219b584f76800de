package wire

import (
	"strings"
	"testing"
)

// TestIsToken: of all bytes those are of a token that RFC 9110 lists.
func TestIsToken(t *testing.T) {
	const all = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for c := range 256 {
		s := string([]byte{byte(c)})
		if want := strings.Contains(all, s); IsToken(s) != want || IsToken("a"+s+"a") != want {
			t.Errorf("%q: it is %v that it is a token", s, !want)
		}
	}
	if IsToken("") {
		t.Error("nothing is a token")
	}
}
