package balance

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"
)

// Cookie is the value that names a pod to clients: the first 8 bytes of the SHA-256 of its UID, in hex.
// Every proxy gives the same one, and nothing of the cluster can be read from it.
func Cookie(uid string) string {
	sum := sha256.Sum256([]byte(uid))
	return hex.EncodeToString(sum[:8])
}

// ByCookie is the endpoint that a cookie's value names, whosever turn it is; nil where another is to be
// chosen and its cookie be given: nobody has that name any more, or gets no new request, was tried, is
// spare while a usable one is not left out, or is left out while another is not.
func (s *Endpoints[V]) ByCookie(value string, now time.Time, tried []*Endpoint[V]) *Endpoint[V] {
	e := s.named[value]
	if e == nil || !e.usable && !e.spare || slices.Contains(tried, e) {
		return nil
	}
	isIn := func(e *Endpoint[V]) bool { return !e.record.isOut(now) }
	usable := slices.ContainsFunc(s.usable.all, isIn)
	if e.spare && usable || !isIn(e) && (usable || slices.ContainsFunc(s.spare.all, isIn)) {
		return nil
	}
	return e
}
