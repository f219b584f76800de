// Package api serves the APIs of the emulator of AWS: the query protocol of Elastic Load
// Balancing (both versions) and of STS, and the endpoint that gives credentials to pods. It
// retries nothing.
package api

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/access"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

const (
	largestBody = 1 << 20
	// soonest is how long an answer takes at least. AWS takes longer, and the SDK closes the
	// body of a request when the answer begins: where it was still being looked at for its
	// end, the connection is closed within the answer.
	soonest = 10 * time.Millisecond
)

// Server answers calls.
type Server struct {
	Cloud  *cloud.Cloud
	Access *access.Access
	Faults *Faults
	Calls  *Log

	mu      sync.Mutex
	limits  Limits
	buckets map[string]*bucket
}

// NewServer makes a server of an account.
func NewServer(c *cloud.Cloud, a *access.Access, limits Limits, faults *Faults) *Server {
	return &Server{Cloud: c, Access: a, limits: limits.withDefaults(), Faults: faults, Calls: &Log{}, buckets: map[string]*bucket{}}
}

// action is what the server can do.
type action struct {
	service    string   // in signatures and policies
	namespace  string   // of the answer
	parameters []string // that are understood; # stands for an index
	class      string   // of throttling
	unsigned   bool     // anyone may ask
	resources  func(*Server, params) []string
	do         func(*Server, request) (any, error)
}

// request is a call that may be carried out.
type request struct {
	params
	by  access.Credentials
	now time.Time     // when it is carried out
	age time.Duration // how old the state is that it is answered from

	refusesUnregistered bool // a deregistration of what is not registered
}

// seen is the moment whose state answers the call.
func (r request) seen() time.Time { return r.now.Add(-r.age) }

// ServeHTTP answers a call of the query protocol.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := Call{At: time.Now(), ID: s.Calls.nextID()}
	body, err := io.ReadAll(io.LimitReader(r.Body, largestBody))
	form, parseErr := url.ParseQuery(string(body))
	if err != nil || parseErr != nil || r.Method != http.MethodPost {
		s.answer(w, &call, action{}, nil, &Error{400, "MalformedInput", "a form must be posted"})
		return
	}
	p := params{form}
	call.Version, call.Action = p.text("Version"), p.text("Action")
	a, found := actions[call.Version+" "+call.Action]
	call.describe(p)
	if !found {
		s.answer(w, &call, a, nil, &Error{400, "InvalidAction", fmt.Sprintf("Could not find operation %s for version %s", call.Action, call.Version)})
		return
	}
	fate := s.Faults.draw(call.Action, call.Targets, call.At)
	sleep(r, fate.latency)
	result, err := s.carryOut(r, body, a, p, fate, &call)
	sleep(r, soonest-time.Since(call.At))
	if fate.lost && call.CarriedOut {
		call.Outcome = "response lost"
		s.Calls.add(call)
		drop(w)
		return
	}
	s.answer(w, &call, a, result, err)
}

func sleep(r *http.Request, d time.Duration) {
	if d > 0 {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
	}
}

// carryOut does what is asked for, in AWS's order: who asks, how often, whether they
// may, what.
func (s *Server) carryOut(r *http.Request, body []byte, a action, p params, fate fate, call *Call) (any, error) {
	now := time.Now()
	in := request{params: p, now: now, age: s.Cloud.Scaled(fate.age), refusesUnregistered: fate.refusesUnregistered}
	if !a.unsigned {
		by, err := s.Access.Authenticate(r, body, a.service, now)
		if err != nil {
			return nil, err
		}
		in.by, call.Principal, call.Tags = by, by.Principal.ARN, by.Tags
	}
	if fate.throttled || !s.admit(a.class, now) {
		return nil, &Error{400, "Throttling", "Rate exceeded"}
	}
	if err := s.authorize(a, in); err != nil {
		return nil, err
	}
	if err := p.check(a.parameters); err != nil {
		return nil, err
	}
	if fate.failsBefore {
		return nil, unavailable
	}
	if fate.refusal != "" {
		return nil, &Error{400, fate.refusal, "The call is refused, as the test asks"}
	}
	result, err := a.do(s, in)
	call.CarriedOut = err == nil
	if err == nil && fate.failsAfter {
		return nil, internal
	}
	return result, err
}

var (
	unavailable = &Error{503, "ServiceUnavailable", "The request has failed due to a temporary failure of the server."}
	internal    = &Error{500, "InternalFailure", "The request processing has failed because of an unknown error, exception or failure."}
)

func (s *Server) authorize(a action, in request) error {
	if a.resources == nil {
		return nil
	}
	for _, resource := range a.resources(s, in.params) {
		tags, _ := s.Cloud.Tags(resource)
		if err := in.by.Principal.Authorize(a.service+":"+in.text("Action"), resource, tags); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) answer(w http.ResponseWriter, call *Call, a action, result any, err error) {
	status, body := http.StatusOK, []byte(nil)
	if err == nil {
		call.Outcome = "OK"
		body, err = encode(a.namespace, call.Action, call.ID, result)
	}
	if err != nil {
		e := wireError(err)
		status, call.Outcome = e.Status, e.Code
		body = encodeError(a.namespace, call.ID, e)
	}
	call.Status = status
	s.Calls.add(*call)
	w.Header().Set("Content-Type", "text/xml")
	w.Header().Set("X-Amzn-Requestid", call.ID)
	w.WriteHeader(status)
	w.Write(body)
}

// drop closes the connection without an answer.
func drop(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// Error is an answer that refuses a call.
type Error struct {
	Status        int
	Code, Message string
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// wireError is what an error looks like to the caller.
func wireError(err error) *Error {
	var (
		wire    *Error
		refusal *cloud.Error
		denial  *access.Error
	)
	switch {
	case errors.As(err, &wire):
		return wire
	case errors.As(err, &refusal):
		return &Error{400, refusal.Code, refusal.Message}
	case errors.As(err, &denial):
		return &Error{denial.Status, denial.Code, denial.Message}
	}
	return &Error{500, "InternalFailure", err.Error()}
}

func invalid(format string, args ...any) *Error {
	return &Error{400, "ValidationError", fmt.Sprintf(format, args...)}
}

// all are the resources of an action without resource-level permissions.
func all(*Server, params) []string { return []string{"*"} }

func targetGroup(_ *Server, p params) []string { return []string{p.text("TargetGroupArn")} }

func classicBalancer(s *Server, p params) []string {
	return []string{s.Cloud.ClassicARN(p.text("LoadBalancerName"))}
}

// page cuts one page out of a list: at most size, in the order of a key that no two have,
// and of those with a higher key than the marker names. So what comes or goes between two
// pages moves nothing else.
func page[T any](list []T, p params, most int, key func(T) string) (part []T, next string, err error) {
	size, err := p.number("PageSize")
	if err != nil || size < 0 || size > most {
		return nil, "", invalid("PageSize must be between 1 and %d", most)
	}
	if size == 0 {
		size = most
	}
	after, err := afterMarker(p.text("Marker"))
	if err != nil {
		return nil, "", err
	}
	part = slices.DeleteFunc(slices.Clone(list), func(item T) bool { return key(item) <= after })
	slices.SortFunc(part, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	if len(part) > size {
		part = part[:size]
		next = markerAfter(key(part[size-1]))
	}
	return part, next, nil
}

const markerPrefix = "after "

// markerAfter is a marker, of which clients are to understand nothing.
func markerAfter(key string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(markerPrefix + key))
}

func afterMarker(marker string) (string, error) {
	text, err := base64.RawURLEncoding.DecodeString(marker)
	key, ours := strings.CutPrefix(string(text), markerPrefix)
	if marker != "" && (err != nil || !ours) {
		return "", invalid("Invalid marker: %s", marker)
	}
	return key, nil
}

// named are the items whose name is asked for, all of which must exist, or all items
// where none is asked for.
func named[T any](list []T, names []string, name func(T) string, missing func(string) error) ([]T, error) {
	if len(names) == 0 {
		return list, nil
	}
	var found []T
	for _, wanted := range names {
		i := slices.IndexFunc(list, func(item T) bool { return name(item) == wanted })
		if i < 0 {
			return nil, missing(wanted)
		}
		found = append(found, list[i])
	}
	return found, nil
}

func notFound(code, what string) func(string) error {
	return func(name string) error {
		return &Error{400, code, what + " '" + strings.TrimSpace(name) + "' not found"}
	}
}
