// Package access decides, in the emulator of AWS, who makes a call and whether they may:
// signatures, temporary credentials that expire, and policies. It keeps account of the grants
// that were used.
package access

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
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
	// TagSession says whether those who may assume it may also tag their session: whether its
	// trust policy allows sts:TagSession beside sts:AssumeRole.
	TagSession bool `json:"tagSession,omitempty"`
}

// Association gives a role to pods that show a token of the issuer, as EKS Pod Identity does.
type Association struct {
	Role   string `json:"role"`
	Issuer Issuer `json:"issuer"`
	// Cluster is the name of the cluster, in session tags; default cluster.
	Cluster string `json:"cluster,omitempty"`
	// DisableSessionTags says whether the session gets no tags.
	DisableSessionTags bool `json:"disableSessionTags,omitempty"`
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
	// Tags are those of the session, those that it inherited among them. Of these keys the
	// transitive ones go over to a role that it assumes.
	Tags       map[string]string
	Transitive []string
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
func (a *Access) issue(r *role, s Session, now time.Time) Credentials {
	a.mu.Lock()
	defer a.mu.Unlock()
	lifetime := a.lifetime
	if s.Lifetime > 0 {
		lifetime = min(lifetime, s.Lifetime)
	}
	c := Credentials{
		AccessKeyID: "ASIA" + a.letters(16), SecretKey: a.letters(40), Token: a.letters(200),
		Expires: now.Add(lifetime).UTC().Truncate(time.Second), RoleID: "AROA" + r.Name + ":" + s.Name,
		Principal: Principal{fmt.Sprintf("arn:aws:sts::%s:assumed-role/%s/%s", a.config.Account, r.Name, s.Name), r.policy},
		Tags:      s.Tags, Transitive: s.Transitive,
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

// AssumeRole gives out credentials of a role to a caller that it trusts. Whether the caller's
// own policy permits sts:AssumeRole was asked before; sts:TagSession, which a session with
// tags needs, those that it inherits included, is asked of both here.
func (a *Access) AssumeRole(by Credentials, arn string, s Session, now time.Time) (Credentials, error) {
	r := a.roles[arn]
	if r == nil || !matchesAny(r.Principals, by.Principal.ARN) {
		return Credentials{}, denied(by.Principal.ARN, "sts:AssumeRole", arn, "")
	}
	s, err := s.inherit(by)
	if err != nil {
		return Credentials{}, err
	}
	if len(s.Tags) > 0 {
		if err := by.Principal.Authorize(tagSession, arn, nil); err != nil {
			return Credentials{}, err
		}
		if !r.TagSession {
			return Credentials{}, denied(by.Principal.ARN, tagSession, arn, "")
		}
	}
	return a.issue(r, s, now), nil
}

// AssumeRoleWithWebIdentity gives out credentials of a role that trusts the token's issuer.
func (a *Access) AssumeRoleWithWebIdentity(token, arn string, s Session, now time.Time) (Credentials, error) {
	r := a.roles[arn]
	if r == nil || r.WebIdentity == nil {
		return Credentials{}, &Error{403, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity"}
	}
	if _, err := r.WebIdentity.verify(token, now); err != nil {
		return Credentials{}, err
	}
	return a.issue(r, s, now), nil
}

// AssumeRoleForPodIdentity gives out the credentials of the association.
func (a *Access) AssumeRoleForPodIdentity(token string, now time.Time) (Credentials, error) {
	association := a.config.PodIdentity
	if association == nil {
		return Credentials{}, &Error{404, "ResourceNotFoundException", "There is no pod identity association"}
	}
	c, err := association.Issuer.verify(token, now)
	if err != nil {
		return Credentials{}, err
	}
	r, s := a.roles[a.roleARN(association.Role)], Session{Name: "pod-identity"}
	if !association.DisableSessionTags {
		s.Tags = association.tags(c, a.config)
		s.Transitive = slices.Sorted(maps.Keys(s.Tags))
		if !r.TagSession {
			return Credentials{}, &Error{403, "AccessDeniedException", "Unauthorized Exception! EKS does not have permissions to assume the associated role."}
		}
	}
	return a.issue(r, s, now), nil
}
