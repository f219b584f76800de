// Package access decides who makes a call and whether they may: signatures, temporary
// credentials that expire, and policies. It keeps account of the grants that were used.
package access

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// Config is who there is.
type Config struct {
	Account         string       `json:"-"`
	Region          string       `json:"-"`
	Seed            uint64       `json:"-"`
	LifetimeSeconds int          `json:"lifetimeSeconds,omitempty"` // of all credentials given out, unscaled; default 3,600
	Users           []User       `json:"users,omitempty"`
	Roles           []Role       `json:"roles,omitempty"`
	PodIdentity     *Association `json:"podIdentity,omitempty"`
}

// User has credentials that do not expire.
type User struct {
	Name        string          `json:"name"`
	AccessKeyID string          `json:"accessKeyId"`
	SecretKey   string          `json:"secretAccessKey"`
	Policy      json.RawMessage `json:"policy"`
}

// Role is assumed by those whom it trusts.
type Role struct {
	Name        string          `json:"name"`
	Policy      json.RawMessage `json:"policy"`
	Principals  []string        `json:"principals,omitempty"` // ARNs that may assume it, with wildcards
	WebIdentity *Issuer         `json:"webIdentity,omitempty"`
}

// Association gives a role to pods that show a token of the issuer, as EKS Pod Identity does.
type Association struct {
	Role   string `json:"role"`
	Issuer Issuer `json:"issuer"`
}

// Error is a refusal, with its HTTP status.
type Error struct {
	Status        int
	Code, Message string
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Principal is who makes a call.
type Principal struct {
	ARN    string
	policy *policy
}

// Credentials are temporary ones.
type Credentials struct {
	AccessKeyID, SecretKey, Token string
	Expires                       time.Time
	Principal                     Principal
	RoleID                        string // with the session: who it is to STS
}

// Access knows all credentials that were given out.
type Access struct {
	config   Config
	lifetime time.Duration
	roles    map[string]*role // by ARN
	owners   []owner

	mu     sync.Mutex
	random *rand.Rand
	keys   map[string]Credentials // by access key
}

type role struct {
	Role
	policy *policy
}

// owner is who a policy belongs to, for the report of grants.
type owner struct {
	arn    string
	policy *policy
}

// New reads all policies.
func New(config Config) (*Access, error) {
	h := fnv.New64a()
	h.Write([]byte("credentials"))
	a := &Access{
		config: config, lifetime: time.Duration(cmp.Or(config.LifetimeSeconds, 3600)) * time.Second,
		roles: map[string]*role{}, keys: map[string]Credentials{}, random: rand.New(rand.NewPCG(config.Seed, h.Sum64())),
	}
	for _, u := range config.Users {
		p, err := parsePolicy(u.Policy)
		if err != nil {
			return nil, fmt.Errorf("policy of user %s: %w", u.Name, err)
		}
		arn := fmt.Sprintf("arn:aws:iam::%s:user/%s", config.Account, u.Name)
		a.keys[u.AccessKeyID] = Credentials{AccessKeyID: u.AccessKeyID, SecretKey: u.SecretKey, Principal: Principal{arn, p}, RoleID: "AIDA" + u.Name}
		a.owners = append(a.owners, owner{arn, p})
	}
	for _, r := range config.Roles {
		p, err := parsePolicy(r.Policy)
		if err != nil {
			return nil, fmt.Errorf("policy of role %s: %w", r.Name, err)
		}
		arn := a.roleARN(r.Name)
		a.roles[arn] = &role{r, p}
		a.owners = append(a.owners, owner{arn, p})
	}
	if pods := config.PodIdentity; pods != nil && a.roles[a.roleARN(pods.Role)] == nil {
		return nil, fmt.Errorf("pod identity: there is no role %s", pods.Role)
	}
	return a, nil
}

func (a *Access) roleARN(name string) string {
	return fmt.Sprintf("arn:aws:iam::%s:role/%s", a.config.Account, name)
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

func (a *Access) letters(n int) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = alphabet[a.random.IntN(len(alphabet))]
	}
	return string(out)
}

// issue gives out credentials of a role.
func (a *Access) issue(r *role, session string, now time.Time, asked time.Duration) Credentials {
	a.mu.Lock()
	defer a.mu.Unlock()
	lifetime := a.lifetime
	if asked > 0 {
		lifetime = min(lifetime, asked)
	}
	c := Credentials{
		AccessKeyID: "ASIA" + a.letters(16), SecretKey: a.letters(40), Token: a.letters(200),
		Expires: now.Add(lifetime).UTC().Truncate(time.Second), RoleID: "AROA" + r.Name + ":" + session,
		Principal: Principal{fmt.Sprintf("arn:aws:sts::%s:assumed-role/%s/%s", a.config.Account, r.Name, session), r.policy},
	}
	a.keys[c.AccessKeyID] = c
	return c
}

func (a *Access) lookup(key string) (Credentials, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, found := a.keys[key]
	return c, found
}

// AssumeRole gives out credentials of a role to a principal that it trusts. Whether the
// principal's own policy permits it is Authorize's to say.
func (a *Access) AssumeRole(by Principal, arn, session string, asked time.Duration, now time.Time) (Credentials, error) {
	r := a.roles[arn]
	if r == nil || !matchesAny(r.Principals, by.ARN) {
		return Credentials{}, denied(by.ARN, "sts:AssumeRole", arn, "")
	}
	return a.issue(r, session, now, asked), nil
}

// AssumeRoleWithWebIdentity gives out credentials of a role that trusts the token's issuer.
func (a *Access) AssumeRoleWithWebIdentity(token, arn, session string, asked time.Duration, now time.Time) (Credentials, error) {
	r := a.roles[arn]
	if r == nil || r.WebIdentity == nil {
		return Credentials{}, &Error{403, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity"}
	}
	if err := r.WebIdentity.verify(token, now); err != nil {
		return Credentials{}, err
	}
	return a.issue(r, session, now, asked), nil
}

// AssumeRoleForPodIdentity gives out the credentials of the association.
func (a *Access) AssumeRoleForPodIdentity(token string, now time.Time) (Credentials, error) {
	association := a.config.PodIdentity
	if association == nil {
		return Credentials{}, &Error{404, "ResourceNotFoundException", "There is no pod identity association"}
	}
	if err := association.Issuer.verify(token, now); err != nil {
		return Credentials{}, err
	}
	return a.issue(a.roles[a.roleARN(association.Role)], "pod-identity", now, 0), nil
}
