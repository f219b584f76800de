package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	algorithm  = "AWS4-HMAC-SHA256"
	timeFormat = "20060102T150405Z"
	maxSkew    = 5 * time.Minute
)

// Authenticate verifies the signature of a call, version 4, in its Authorization header
// (IAM User Guide, "Create a signed AWS API request").
func (a *Access) Authenticate(r *http.Request, body []byte, service string, now time.Time) (Credentials, error) {
	s, err := parseSignature(r)
	if err != nil {
		return Credentials{}, err
	}
	credentials, found := a.lookup(s.key)
	if !found || credentials.Token != r.Header.Get("X-Amz-Security-Token") {
		return Credentials{}, &Error{403, "InvalidClientTokenId", "The security token included in the request is invalid."}
	}
	if err := s.checkScope(a.config.Region, service); err != nil {
		return Credentials{}, err
	}
	if err := s.checkDate(now); err != nil {
		return Credentials{}, err
	}
	if !hmac.Equal([]byte(s.of(r, body, credentials.SecretKey)), []byte(s.signature)) {
		return Credentials{}, mismatch("The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details.")
	}
	if !credentials.Expires.IsZero() && !now.Before(credentials.Expires) {
		return Credentials{}, &Error{403, "ExpiredToken", "The security token included in the request is expired"}
	}
	return credentials, nil
}

func mismatch(format string, args ...any) *Error {
	return &Error{403, "SignatureDoesNotMatch", fmt.Sprintf(format, args...)}
}

func incomplete(message string) *Error { return &Error{400, "IncompleteSignature", message} }

type signature struct {
	key                   string
	day, region, service  string
	headers               []string
	signature, dateHeader string
	date                  time.Time
}

func parseSignature(r *http.Request) (signature, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return signature{}, &Error{403, "MissingAuthenticationToken", "Request is missing Authentication Token"}
	}
	method, rest, _ := strings.Cut(header, " ")
	if method != algorithm {
		return signature{}, incomplete("Unsupported AWS 'algorithm': '" + method + "'.")
	}
	fields := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		fields[name] = value
	}
	scope := strings.Split(fields["Credential"], "/")
	s := signature{signature: fields["Signature"], headers: strings.Split(fields["SignedHeaders"], ";"), dateHeader: r.Header.Get("X-Amz-Date")}
	if len(scope) != 5 || scope[4] != "aws4_request" || s.signature == "" || fields["SignedHeaders"] == "" {
		return s, incomplete("Authorization header requires 'Credential', 'Signature' and 'SignedHeaders' parameters. Authorization=" + header)
	}
	s.key, s.day, s.region, s.service = scope[0], scope[1], scope[2], scope[3]
	var err error
	if s.date, err = time.Parse(timeFormat, s.dateHeader); err != nil {
		return s, incomplete("Date must be in ISO-8601 'basic format'. Got '" + s.dateHeader + "'.")
	}
	return s, s.checkHeaders(r)
}

// checkHeaders wants the host and every x-amz header to be signed.
func (s signature) checkHeaders(r *http.Request) error {
	needed := []string{"host"}
	for name := range r.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-amz-") {
			needed = append(needed, name)
		}
	}
	slices.Sort(needed)
	for _, name := range needed {
		if !slices.Contains(s.headers, name) {
			return mismatch("'%s' must be a signed header in the AWS Authorization.", name)
		}
	}
	if !slices.IsSorted(s.headers) {
		return incomplete("'SignedHeaders' must be sorted.")
	}
	return nil
}

func (s signature) checkScope(region, service string) error {
	switch {
	case s.region != region:
		return mismatch("Credential should be scoped to a valid region, not '%s'.", s.region)
	case s.service != service:
		return mismatch("Credential should be scoped to correct service: '%s'.", service)
	case s.day != s.dateHeader[:8]:
		return mismatch("Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '%s' != '%s', from '%s'.", s.day, s.dateHeader[:8], s.dateHeader)
	}
	return nil
}

func (s signature) checkDate(now time.Time) error {
	switch text := now.UTC().Format(timeFormat); {
	case s.date.Before(now.Add(-maxSkew)):
		return mismatch("Signature expired: %s is now earlier than %s (%s - 5 min.)", s.dateHeader, now.Add(-maxSkew).UTC().Format(timeFormat), text)
	case s.date.After(now.Add(maxSkew)):
		return mismatch("Signature not yet current: %s is still later than %s (%s + 5 min.)", s.dateHeader, now.Add(maxSkew).UTC().Format(timeFormat), text)
	}
	return nil
}

// of is the signature that the request should have.
func (s signature) of(r *http.Request, body []byte, secret string) string {
	canonical := strings.Join([]string{
		r.Method, canonicalPath(r.URL), canonicalQuery(r.URL.Query()), s.canonicalHeaders(r),
		strings.Join(s.headers, ";"), hash(body),
	}, "\n")
	scope := strings.Join([]string{s.day, s.region, s.service, "aws4_request"}, "/")
	key := []byte("AWS4" + secret)
	for _, part := range []string{s.day, s.region, s.service, "aws4_request"} {
		key = sign(key, part)
	}
	return hex.EncodeToString(sign(key, strings.Join([]string{algorithm, s.dateHeader, scope, hash([]byte(canonical))}, "\n")))
}

func (s signature) canonicalHeaders(r *http.Request) string {
	var b strings.Builder
	for _, name := range s.headers {
		var value string
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = strconv.FormatInt(r.ContentLength, 10)
		default:
			value = strings.Join(r.Header.Values(name), ",")
		}
		b.WriteString(name + ":" + strings.Join(strings.Fields(value), " ") + "\n")
	}
	return b.String()
}

func canonicalPath(u *url.URL) string {
	if path := u.EscapedPath(); path != "" {
		return path
	}
	return "/"
}

func canonicalQuery(values url.Values) string {
	return strings.ReplaceAll(values.Encode(), "+", "%20")
}

func sign(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
