package aws

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/access"
)

const iam = "arn:aws:iam::123456789012:"

// assuming is a policy that permits some actions on roles.
func assuming(actions ...string) json.RawMessage {
	text, err := json.Marshal(actions)
	if err != nil {
		panic(err) // strings only
	}
	return json.RawMessage(fmt.Sprintf(`{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": %s, "Resource": "%srole/*"}}`, text, iam))
}

// tagging are two users, one of whom may tag sessions, and a chain of roles: first and then
// second. Of closed and of chained only the other half permits it.
func tagging(c *Config) {
	c.Access.Users = append(c.Access.Users,
		access.User{Name: "tagger", AccessKeyID: "AKIATAGGER", SecretKey: "secret", Policy: assuming("sts:AssumeRole", "sts:TagSession")},
		access.User{Name: "plain", AccessKeyID: "AKIAPLAIN", SecretKey: "secret", Policy: assuming("sts:AssumeRole")},
	)
	users := []string{iam + "user/*"}
	sessions := []string{"arn:aws:sts::123456789012:assumed-role/*"}
	c.Access.Roles = []access.Role{
		{Name: "first", Policy: assuming("sts:AssumeRole", "sts:TagSession"), Principals: users, TagSession: true},
		{Name: "chained", Policy: assuming("sts:AssumeRole"), Principals: users, TagSession: true},
		{Name: "second", Policy: everything, Principals: sessions, TagSession: true},
		{Name: "closed", Policy: everything, Principals: slices.Concat(users, sessions)},
	}
}

// assume assumes a role with tags, of which those with a star before their key are transitive.
func assume(f *fixture, by sdk.CredentialsProvider, role string, tags map[string]string) (sdk.CredentialsProvider, error) {
	f.Helper()
	in := &sts.AssumeRoleInput{RoleArn: sdk.String(iam + "role/" + role), RoleSessionName: sdk.String("session")}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		name, transitive := strings.CutPrefix(key, "*")
		in.Tags = append(in.Tags, ststypes.Tag{Key: &name, Value: sdk.String(tags[key])})
		if transitive {
			in.TransitiveTagKeys = append(in.TransitiveTagKeys, name)
		}
	}
	out, err := sts.NewFromConfig(f.config(by)).AssumeRole(f.Context(), in)
	if err != nil {
		return nil, err
	}
	c := out.Credentials
	return credentials.NewStaticCredentialsProvider(*c.AccessKeyId, *c.SecretAccessKey, *c.SessionToken), nil
}

// tagsOf are the tags of a session, by the log of calls.
func (f *fixture) tagsOf(by sdk.CredentialsProvider) string {
	f.Helper()
	_, err := sts.NewFromConfig(f.config(by)).GetCallerIdentity(f.Context(), &sts.GetCallerIdentityInput{})
	f.must(err)
	calls, err := f.admin.Calls(f.Context(), 0)
	f.must(err)
	return fmt.Sprint(calls[len(calls)-1].Tags)
}

func TestSessionTags(t *testing.T) {
	f := serve(t, tagging)
	tagger, plain := static("AKIATAGGER", "secret"), static("AKIAPLAIN", "secret")
	tags := map[string]string{"team": "ingress", "*cluster": "one"}
	session, err := assume(f, tagger, "first", tags)
	f.must(err)
	f.expect("tags of the session", f.tagsOf(session), "map[cluster:one team:ingress]")
	session, err = assume(f, plain, "first", nil)
	f.must(err)
	f.expect("tags of a session without any", f.tagsOf(session), "map[]")

	_, err = assume(f, plain, "first", tags)
	f.refused(err, "AccessDenied", "user/plain is not authorized to perform: sts:TagSession on resource: "+iam+"role/first because no identity-based policy allows the sts:TagSession action")
	_, err = assume(f, tagger, "closed", tags)
	f.refused(err, "AccessDenied", "user/tagger is not authorized to perform: sts:TagSession on resource: "+iam+"role/closed")

	many := map[string]string{}
	for i := range 51 {
		many[fmt.Sprint("key", i)] = "x"
	}
	for wanted, tags := range map[string]map[string]string{
		"51 session tags":           many,
		"1 to 128 characters":       {strings.Repeat("k", 129): "x"},
		"at most 256 characters":    {"key": strings.Repeat("v", 257)},
		"keys are not case sensiti": {"key": "x", "Key": "y"},
	} {
		_, err := assume(f, tagger, "first", tags)
		f.refused(err, "ValidationError", wanted)
	}
	_, err = sts.NewFromConfig(f.config(tagger)).AssumeRole(t.Context(), &sts.AssumeRoleInput{
		RoleArn: sdk.String(iam + "role/first"), RoleSessionName: sdk.String("session"), TransitiveTagKeys: []string{"other"}})
	f.refused(err, "ValidationError", "transitive tag key other")
}

// Transitive tags go over to the next session, which then needs sts:TagSession although it
// asks for no tag itself.
func TestTransitiveTags(t *testing.T) {
	f := serve(t, tagging)
	tags := map[string]string{"team": "ingress", "*cluster": "one"}
	first, err := assume(f, static("AKIATAGGER", "secret"), "first", tags)
	f.must(err)
	second, err := assume(f, first, "second", nil)
	f.must(err)
	f.expect("tags that went over", f.tagsOf(second), "map[cluster:one]")
	third, err := assume(f, second, "second", map[string]string{"own": "x"})
	f.must(err)
	f.expect("tags of the third", f.tagsOf(third), "map[cluster:one own:x]")

	_, err = assume(f, first, "second", map[string]string{"Cluster": "two"})
	f.refused(err, "InvalidParameterValue", "conflicts with a transitive tag key")
	_, err = assume(f, first, "closed", nil)
	f.refused(err, "AccessDenied", "sts:TagSession on resource: "+iam+"role/closed")
	chained, err := assume(f, static("AKIATAGGER", "secret"), "chained", tags)
	f.must(err)
	_, err = assume(f, chained, "second", nil)
	f.refused(err, "AccessDenied", "assumed-role/chained/session is not authorized to perform: sts:TagSession")
	chained, err = assume(f, static("AKIATAGGER", "secret"), "chained", map[string]string{"team": "ingress"})
	f.must(err)
	second, err = assume(f, chained, "second", nil)
	f.must(err)
	f.expect("tags that do not go over", f.tagsOf(second), "map[]")
}

// The sessions of EKS Pod Identity have tags, all transitive: the trust of its role, and each
// role that is assumed with it, must allow sts:TagSession, unless the association has none.
func TestPodIdentityTags(t *testing.T) {
	start := func(role string, disable bool) (*fixture, sdk.CredentialsProvider) {
		f := serve(t, func(c *Config) {
			tagging(c)
			c.Access.PodIdentity = &access.Association{Role: role, Cluster: "one", DisableSessionTags: disable, Issuer: access.Issuer{
				URL: "https://issuer", Audience: "pods.eks.amazonaws.com", Subjects: []string{"*"}}}
		})
		return f, endpointcreds.New("http://"+f.API+CredentialsPath, func(o *endpointcreds.Options) {
			o.AuthorizationToken = token(t, "pods.eks.amazonaws.com", controller, time.Now().Add(time.Hour), nil)
		})
	}
	f, pods := start("first", false)
	f.expect("tags", f.tagsOf(pods), "map[eks-cluster-arn:arn:aws:eks:"+region+":123456789012:cluster/one eks-cluster-name:one kubernetes-namespace:ingress "+
		"kubernetes-pod-name:proxy-1 kubernetes-pod-uid:u-1 kubernetes-service-account:controller]")
	second, err := assume(f, pods, "second", nil)
	f.must(err)
	if tags := f.tagsOf(second); !strings.Contains(tags, "kubernetes-namespace:ingress") {
		t.Errorf("tags of the role that it assumes: %s", tags)
	}
	_, err = assume(f, pods, "closed", nil)
	f.refused(err, "AccessDenied", "sts:TagSession")

	_, pods = start("closed", false)
	if _, err := pods.Retrieve(t.Context()); err == nil || !strings.Contains(err.Error(), "AccessDeniedException") {
		t.Errorf("a role whose trust does not allow sts:TagSession: %v", err)
	}

	f, pods = start("chained", true)
	f.expect("tags of an association without", f.tagsOf(pods), "map[]")
	_, err = assume(f, pods, "closed", nil)
	f.must(err)
}

// By EKS Pod Identity, what config/aws grants for another role suffices to assume one, whose
// trust allows tags; less does not.
func TestThePolicyForRolesAllowsTags(t *testing.T) {
	granted, err := os.ReadFile("../../config/aws/assume-role.json")
	if err != nil {
		t.Fatal(err)
	}
	const role = "ingress-daemonset-controller-targets"
	for policy, allowed := range map[string]bool{string(granted): true, string(assuming("sts:AssumeRole")): false} {
		f := serve(t, func(c *Config) {
			c.Access.Roles = []access.Role{
				{Name: "controller", Policy: json.RawMessage(policy), TagSession: true},
				{Name: role, Policy: everything, Principals: []string{"arn:aws:sts::123456789012:assumed-role/controller/*"}, TagSession: true},
			}
			c.Access.PodIdentity = &access.Association{Role: "controller", Cluster: "one", Issuer: access.Issuer{
				URL: "https://issuer", Audience: "pods.eks.amazonaws.com", Subjects: []string{"*"}}}
		})
		pods := endpointcreds.New("http://"+f.API+CredentialsPath, func(o *endpointcreds.Options) {
			o.AuthorizationToken = token(t, "pods.eks.amazonaws.com", controller, time.Now().Add(time.Hour), nil)
		})
		if _, err := assume(f, pods, role, nil); (err == nil) != allowed {
			t.Errorf("allowed: %t, %v", allowed, err)
		}
	}
}
