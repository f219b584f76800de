package access

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// tagSession is the action that tags need beside that which assumes a role.
const tagSession = "sts:TagSession"

// Session is what is asked for with a role.
type Session struct {
	Name       string
	Lifetime   time.Duration     // 0: as long as possible
	Tags       map[string]string // session tags
	Transitive []string          // those of their keys that go over to roles assumed with the session
}

// AWS's limits on session tags.
const (
	mostTags   = 50
	longestKey = 128
	longest    = 256 // value
)

// inherit adds the transitive tags of the caller's session to those that are asked for, and
// refuses what STS refuses.
func (s Session) inherit(by Credentials) (Session, error) {
	all, known := map[string]string{}, map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
		value := s.Tags[key]
		lower := strings.ToLower(key)
		switch {
		case key == "" || len(key) > longestKey:
			return s, invalidTag("the key of a session tag must have 1 to %d characters: %q", longestKey, key)
		case len(value) > longest:
			return s, invalidTag("the value of the session tag %s must have at most %d characters", key, longest)
		case known[lower] != "":
			return s, invalidTag("the session tags %s and %s are the same: keys are not case sensitive", known[lower], key)
		}
		known[lower], all[key] = key, value
	}
	for _, key := range s.Transitive {
		if _, found := s.Tags[key]; !found {
			return s, invalidTag("the transitive tag key %s is none of a session tag", key)
		}
	}
	transitive := slices.Clone(s.Transitive)
	for _, key := range by.Transitive {
		if known[strings.ToLower(key)] != "" {
			return s, &Error{400, "InvalidParameterValue", "One of the specified transitive tag keys can't be set because it conflicts with a transitive tag key from the calling session."}
		}
		all[key], transitive = by.Tags[key], append(transitive, key)
	}
	if len(all) > mostTags {
		return s, invalidTag("%d session tags: at most %d can be passed", len(all), mostTags)
	}
	s.Tags, s.Transitive = all, transitive
	return s, nil
}

func invalidTag(format string, args ...any) *Error {
	return &Error{400, "ValidationError", fmt.Sprintf(format, args...)}
}

// tags are those that EKS Pod Identity gives a session, all of them transitive.
func (a Association) tags(c claims, config Config) map[string]string {
	cluster := cmp.Or(a.Cluster, "cluster")
	_, account, _ := strings.Cut(c.Subject, "system:serviceaccount:")
	namespace, name, _ := strings.Cut(account, ":")
	return map[string]string{
		"eks-cluster-arn":            fmt.Sprintf("arn:aws:eks:%s:%s:cluster/%s", config.Region, config.Account, cluster),
		"eks-cluster-name":           cluster,
		"kubernetes-namespace":       namespace,
		"kubernetes-service-account": name,
		"kubernetes-pod-name":        c.Kubernetes.Pod.Name,
		"kubernetes-pod-uid":         c.Kubernetes.Pod.UID,
	}
}
