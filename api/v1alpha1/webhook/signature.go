package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// Tolerance is how far the time of a signature may be from the receiver's clock,
	// in the past or in the future.
	Tolerance = 5 * time.Minute
	// MinSecret is the length of the shortest secret, in bytes: that of the hash, as
	// RFC 2104, section 3, advises.
	MinSecret = sha256.Size
)

// Secret is the secret in a file's content: all of it but line ends at its end. It
// fails where fewer than MinSecret bytes are left.
func Secret(file []byte) ([]byte, error) {
	secret := bytes.TrimRight(file, "\r\n")
	return secret, CheckSecret(secret)
}

// CheckSecret refuses a secret that is too short to be safe.
func CheckSecret(secret []byte) error {
	if len(secret) < MinSecret {
		return fmt.Errorf("the secret has %d bytes, fewer than %d: make one with `openssl rand -hex 32`", len(secret), MinSecret)
	}
	return nil
}

// Sign returns the signature of a body at a time:
//
//	t=<seconds since 1970>,v1=<HMAC-SHA256 in lower-case hexadecimal digits>
//
// What is authenticated is the text of t, a full stop and the body. A scheme that
// comes after v1 would stand beside it.
func Sign(secret, body []byte, at time.Time) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + mac(secret, t, body)
}

func mac(secret []byte, t string, body []byte) string {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(t + "."))
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// Verify tells why a body must not be believed; nil is that Sign made the signature
// with this secret, for this body and at most Tolerance from now. The body is to be
// verified as it was received, before it is decoded. To change a secret, a receiver
// accepts what either the old or the new one verifies until the controller has the
// new one.
func Verify(secret []byte, signature string, body []byte, now time.Time) error {
	if err := CheckSecret(secret); err != nil {
		return err
	}
	t, macs, err := parse(signature)
	if err != nil {
		return err
	}
	at, err := strconv.ParseInt(t, 10, 64)
	if err != nil {
		return fmt.Errorf("signature: t is %.30q, not a number of seconds", t)
	}
	if !matches(macs, mac(secret, t, body)) {
		return errors.New("signature: it is not of this body with this secret")
	}
	// Only who knows the secret gets here, and is told of a clock that is wrong.
	if away := now.Sub(time.Unix(at, 0)); away.Abs() > Tolerance {
		return fmt.Errorf("signature: it was made at %s, by this clock %s ago: more than %s away",
			time.Unix(at, 0).UTC().Format(time.RFC3339), away.Round(time.Second), Tolerance)
	}
	return nil
}

// parse gives the one time and the v1 of a signature. What else stands in it is of
// schemes that are not known here.
func parse(signature string) (t string, macs []string, err error) {
	for element := range strings.SplitSeq(signature, ",") {
		key, value, ok := strings.Cut(element, "=")
		switch {
		case !ok:
			return "", nil, fmt.Errorf("signature: %.30q is not KEY=VALUE", element)
		case key == "t" && t != "":
			return "", nil, errors.New("signature: it has two times")
		case key == "t":
			t = value
		case key == "v1":
			macs = append(macs, value)
		}
	}
	if t == "" || len(macs) == 0 {
		return "", nil, errors.New("signature: it must be t=SECONDS,v1=HMAC")
	}
	return t, macs, nil
}

// matches takes as long whichever byte differs.
func matches(macs []string, want string) bool {
	found := false
	for _, given := range macs {
		found = hmac.Equal([]byte(given), []byte(want)) || found
	}
	return found
}
