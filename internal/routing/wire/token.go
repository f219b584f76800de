package wire

import "strings"

// IsToken reports whether a text is a token (RFC 9110, 5.6.2), as names of methods, headers and cookies are.
func IsToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}
