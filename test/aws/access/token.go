package access

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"slices"
	"strings"
	"time"
)

// Issuer says which tokens are trusted: those of service accounts of a cluster.
type Issuer struct {
	URL      string   `json:"url"`
	Audience string   `json:"audience"`      // such as sts.amazonaws.com
	Subjects []string `json:"subjects"`      // with wildcards, such as system:serviceaccount:NAMESPACE:NAME
	Key      string   `json:"key,omitempty"` // PEM of the issuer's public RSA key; without it signatures are not verified
}

type claims struct {
	Issuer    string    `json:"iss"`
	Audience  oneOrMore `json:"aud"`
	Subject   string    `json:"sub"`
	Expires   float64   `json:"exp"`
	NotBefore float64   `json:"nbf"`

	Kubernetes struct {
		Pod struct{ Name, UID string }
	} `json:"kubernetes.io"`
}

func invalidToken(message string) *Error { return &Error{400, "InvalidIdentityToken", message} }

// verify checks a JSON Web Token (RFC 7519) as AWS checks those of an OIDC provider.
func (i Issuer) verify(token string, now time.Time) (claims, error) {
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return claims{}, invalidToken("The ID Token provided is not a valid JWT. (You may see this error if you sent an Access Token)")
	}
	var c claims
	if payload, err := base64.RawURLEncoding.DecodeString(parts[1]); err != nil || json.Unmarshal(payload, &c) != nil {
		return c, invalidToken("The ID Token provided is not a valid JWT. (You may see this error if you sent an Access Token)")
	}
	seconds := float64(now.Unix())
	switch {
	case c.Issuer != i.URL:
		return c, invalidToken("No OpenIDConnect provider found in your account for " + c.Issuer)
	case !i.signed(parts):
		return c, invalidToken("Couldn't retrieve verification key from your identity provider, or the signature does not verify")
	case seconds >= c.Expires:
		return c, &Error{400, "ExpiredTokenException", "Token expired: current date/time must be before the expiration date/time"}
	case seconds < c.NotBefore:
		return c, invalidToken("Token is not valid yet")
	case !slices.Contains(c.Audience, i.Audience):
		return c, invalidToken("Incorrect token audience")
	case !matchesAny(i.Subjects, c.Subject):
		return c, &Error{403, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity"}
	}
	return c, nil
}

// signed reports whether the signature, RS256, is that of the issuer's key.
func (i Issuer) signed(parts []string) bool {
	if i.Key == "" {
		return true
	}
	block, _ := pem.Decode([]byte(i.Key))
	if block == nil {
		return false
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	public, isRSA := key.(*rsa.PublicKey)
	signature, badText := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || !isRSA || badText != nil {
		return false
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	return rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], signature) == nil
}
