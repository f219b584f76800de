package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/access"
)

const (
	stsVersion   = "2011-06-15"
	stsNamespace = "https://sts.amazonaws.com/doc/2011-06-15/"
)

func sts(resources func(*Server, params) []string, do func(*Server, request) (any, error), parameters ...string) action {
	return action{service: "sts", namespace: stsNamespace, parameters: parameters, resources: resources, do: do}
}

func roleARN(_ *Server, p params) []string { return []string{p.text("RoleArn")} }

func getCallerIdentity(s *Server, r request) (any, error) {
	return struct{ Arn, UserId, Account string }{r.by.Principal.ARN, r.by.RoleID, s.Cloud.Account()}, nil
}

type credentialsAnswer struct {
	Credentials struct {
		AccessKeyId, SecretAccessKey, SessionToken string
		Expiration                                 time.Time
	}
	AssumedRoleUser struct{ Arn, AssumedRoleId string }
}

func credentialsOf(c access.Credentials) (a credentialsAnswer) {
	a.Credentials.AccessKeyId, a.Credentials.SecretAccessKey = c.AccessKeyID, c.SecretKey
	a.Credentials.SessionToken, a.Credentials.Expiration = c.Token, c.Expires
	a.AssumedRoleUser.Arn, a.AssumedRoleUser.AssumedRoleId = c.Principal.ARN, c.RoleID
	return a
}

var sessionName = regexp.MustCompile(`^[\w+=,.@-]{2,64}$`)

// session is the session that is asked for.
func (r request) session() (access.Session, error) {
	name := r.text("RoleSessionName")
	if !sessionName.MatchString(name) {
		return access.Session{}, invalid("Value '%s' at 'roleSessionName' failed to satisfy constraint: Member must satisfy regular expression pattern: [\\w+=,.@-]*", name)
	}
	seconds, err := r.number("DurationSeconds")
	if err == nil && r.Has("DurationSeconds") && (seconds < 900 || seconds > 43200) {
		err = invalid("Value '%d' at 'durationSeconds' must be between 900 and 43200", seconds)
	}
	s := access.Session{Name: name, Lifetime: time.Duration(seconds) * time.Second, Tags: map[string]string{}, Transitive: r.list("TransitiveTagKeys", "")}
	keys := r.list("Tags", ".Key")
	for i, key := range keys {
		s.Tags[key] = r.text(fmt.Sprintf("Tags.member.%d.Value", i+1))
	}
	if err == nil && len(s.Tags) < len(keys) {
		err = invalid("Duplicate session tag keys")
	}
	return s, err
}

func assumeRole(s *Server, r request) (any, error) {
	session, err := r.session()
	if err != nil {
		return nil, err
	}
	c, err := s.Access.AssumeRole(r.by, r.text("RoleArn"), session, r.now)
	return credentialsOf(c), err
}

func assumeRoleWithWebIdentity(s *Server, r request) (any, error) {
	session, err := r.session()
	if err != nil {
		return nil, err
	}
	c, err := s.Access.AssumeRoleWithWebIdentity(r.text("WebIdentityToken"), r.text("RoleArn"), session, r.now)
	return credentialsOf(c), err
}

// PodIdentity is the endpoint that AWS_CONTAINER_CREDENTIALS_FULL_URI names, as the EKS
// Pod Identity agent has it: it takes the token of AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE
// and gives credentials.
func (s *Server) PodIdentity(w http.ResponseWriter, r *http.Request) {
	call := Call{At: time.Now(), ID: s.Calls.nextID(), Version: "pod-identity", Action: "AssumeRoleForPodIdentity", Status: http.StatusOK, Outcome: "OK"}
	c, err := s.Access.AssumeRoleForPodIdentity(strings.TrimSpace(r.Header.Get("Authorization")), call.At)
	call.Principal, call.Tags, call.CarriedOut = c.Principal.ARN, c.Tags, err == nil
	var refusal *access.Error
	if errors.As(err, &refusal) {
		call.Status, call.Outcome = refusal.Status, refusal.Code
	}
	s.Calls.add(call)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(call.Status)
	if err != nil {
		json.NewEncoder(w).Encode(map[string]string{"code": call.Outcome, "message": err.Error()})
		return
	}
	json.NewEncoder(w).Encode(map[string]string{
		"AccessKeyId": c.AccessKeyID, "SecretAccessKey": c.SecretKey, "Token": c.Token,
		"AccountId": s.Cloud.Account(), "Expiration": c.Expires.Format(time.RFC3339),
	})
}
