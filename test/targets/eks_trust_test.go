package targets

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/access"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/docs"
)

// TestEKSTrust has the emulator trust whom the page's policies trust: tokens of the controller's service
// account, as the API server makes them, become the role, those of another account do not; and the role may
// register with groups that the page tags, and with no others.
func TestEKSTrust(t *testing.T) {
	t.Parallel()
	f := &fixture{T: t}
	byIRSA, byPodIdentity := f.trusts()
	f.irsa(byIRSA)
	f.podIdentity(byPodIdentity)
}

// trustPolicy is as much of one as the page's have.
type trustPolicy struct {
	Statement []struct {
		Effect    string
		Principal struct{ Federated, Service string }
		Action    oneOrMore
		Condition struct{ StringEquals map[string]string }
	}
}

// oneOrMore is a string, or a list of them.
type oneOrMore []string

func (o *oneOrMore) UnmarshalJSON(data []byte) error {
	var one string
	if err := json.Unmarshal(data, &one); err == nil {
		*o = oneOrMore{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(o))
}

// trusts are the page's two, which are the files that its commands name.
func (f *fixture) trusts() (byIRSA, byPodIdentity trustPolicy) {
	f.Helper()
	r := &reader{fixture: f}
	blocks := docs.Blocks(r.file(eksPage), "json")
	for name, into := range map[string]*trustPolicy{"trust-irsa.json": &byIRSA, "trust-pod-identity.json": &byPodIdentity} {
		text := r.file("config/aws/" + name)
		if !slices.Contains(blocks, "\n"+text) && !slices.Contains(blocks, text) {
			f.Errorf("%s does not show config/aws/%s as it is", eksPage, name)
		}
		text = strings.NewReplacer("ACCOUNT", "123456789012", "ISSUER", strings.TrimPrefix(cluster.Issuer, "https://")).Replace(text)
		f.must(json.Unmarshal([]byte(text), into))
		if len(into.Statement) != 1 || into.Statement[0].Effect != "Allow" {
			f.Fatalf("%s: %+v", name, into)
		}
	}
	return byIRSA, byPodIdentity
}

const roleName = "ingress-daemonset-controller"

// account starts an account with the role of the page, and two groups: one that is tagged as the page's are.
func (f *fixture) account(change func(*access.Config, *access.Role)) (server *aws.Server, tagged, other string) {
	f.Helper()
	role := access.Role{Name: roleName, Policy: json.RawMessage((&reader{fixture: f}).file("config/aws/policy-by-tag.json"))}
	config := aws.Config{Spec: cloud.Spec{
		Seed: 3, Scale: 10, Region: region, VPC: cloud.VPC{Subnets: []cloud.Subnet{{CIDR: netip.MustParsePrefix("10.0.0.0/8"), Zone: zone}}},
		TargetGroups: []cloud.TargetGroup{
			{Name: "tagged", Protocol: "TCP", Port: 80, TargetType: "ip", AssumeHealthy: true, Tags: map[string]string{managed: "true"}},
			{Name: "other", Protocol: "TCP", Port: 80, TargetType: "ip", AssumeHealthy: true},
		},
	}}
	change(&config.Access, &role)
	config.Access.Roles = []access.Role{role}
	server, err := aws.Start(f.Context(), config)
	f.must(err)
	f.Cleanup(server.Stop)
	groups, err := aws.NewClient(server.Admin).TargetGroups(f.Context())
	f.must(err)
	for _, g := range groups {
		if g.Name == "tagged" {
			tagged = g.ARN
		} else {
			other = g.ARN
		}
	}
	return server, tagged, other
}

// token is one of a service account of the controller's namespace, for an audience.
func (f *fixture) token(name, audience string) string {
	f.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
	f.must(api.SubResource("token").Create(f.Context(), account, request))
	return request.Status.Token
}

// denied is that a call was refused for want of a permission.
func (f *fixture) denied(what string, err error) {
	f.Helper()
	var refusal smithy.APIError
	if !errors.As(err, &refusal) || refusal.ErrorCode() != "AccessDenied" {
		f.Errorf("%s: %v", what, err)
	}
}

// registers is that credentials are good for one group and for no other.
func (f *fixture) registers(server *aws.Server, keys sdk.CredentialsProvider, tagged, other string) {
	f.Helper()
	as := elb.New(elb.Options{Region: region, BaseEndpoint: sdk.String("http://" + server.API), Credentials: keys})
	target := []types.TargetDescription{{Id: sdk.String("10.0.0.1")}}
	_, err := as.RegisterTargets(f.Context(), &elb.RegisterTargetsInput{TargetGroupArn: &tagged, Targets: target})
	f.must(err)
	_, err = as.DescribeTargetHealth(f.Context(), &elb.DescribeTargetHealthInput{TargetGroupArn: &other})
	f.must(err)
	_, err = as.RegisterTargets(f.Context(), &elb.RegisterTargetsInput{TargetGroupArn: &other, Targets: target})
	f.denied("a group without the tag", err)
}

// irsa becomes the role with a token of the controller's service account.
func (f *fixture) irsa(trust trustPolicy) {
	f.Helper()
	s := trust.Statement[0]
	provider, isProvider := strings.CutPrefix(s.Principal.Federated, "arn:aws:iam::123456789012:oidc-provider/")
	audience := s.Condition.StringEquals[provider+":aud"]
	if !isProvider || audience == "" || !slices.Equal(s.Action, oneOrMore{"sts:AssumeRoleWithWebIdentity"}) {
		f.Fatalf("%+v", s)
	}
	server, tagged, other := f.account(func(_ *access.Config, role *access.Role) {
		role.WebIdentity = &access.Issuer{URL: "https://" + provider, Audience: audience, Subjects: []string{s.Condition.StringEquals[provider+":sub"]}}
	})
	anybody := sts.New(sts.Options{Region: region, BaseEndpoint: sdk.String("http://" + server.API), Credentials: sdk.AnonymousCredentials{}})
	assume := func(account string) (*sts.AssumeRoleWithWebIdentityOutput, error) {
		token := f.token(account, audience)
		return anybody.AssumeRoleWithWebIdentity(f.Context(), &sts.AssumeRoleWithWebIdentityInput{
			RoleArn: sdk.String("arn:aws:iam::123456789012:role/" + roleName), RoleSessionName: sdk.String("test"), WebIdentityToken: &token,
		})
	}
	_, err := assume("default")
	f.denied("another service account", err)
	out, err := assume(accountName)
	f.must(err)
	f.registers(server, credentials.NewStaticCredentialsProvider(*out.Credentials.AccessKeyId, *out.Credentials.SecretAccessKey, *out.Credentials.SessionToken), tagged, other)
}

// podIdentity is given credentials for the role by the agent, for which the role has to trust EKS.
func (f *fixture) podIdentity(trust trustPolicy) {
	f.Helper()
	const audience = "pods.eks.amazonaws.com"
	s := trust.Statement[0]
	if s.Principal.Service != audience || !slices.Contains(s.Action, "sts:AssumeRole") {
		f.Fatalf("%+v", s)
	}
	server, tagged, other := f.account(func(config *access.Config, role *access.Role) {
		role.TagSession = slices.Contains(s.Action, "sts:TagSession")
		config.PodIdentity = &access.Association{Role: roleName, Cluster: "web", Issuer: access.Issuer{
			URL: cluster.Issuer, Audience: audience, Subjects: []string{"system:serviceaccount:" + namespace + ":" + accountName},
		}}
	})
	request, err := http.NewRequestWithContext(f.Context(), http.MethodGet, "http://"+server.API+aws.CredentialsPath, nil)
	f.must(err)
	request.Header.Set("Authorization", f.token(accountName, audience))
	response, err := http.DefaultClient.Do(request)
	f.must(err)
	defer response.Body.Close()
	var given struct{ AccessKeyId, SecretAccessKey, Token string }
	f.must(json.NewDecoder(response.Body).Decode(&given))
	if response.StatusCode != http.StatusOK {
		f.Fatalf("the agent answers %s", response.Status)
	}
	f.registers(server, credentials.NewStaticCredentialsProvider(given.AccessKeyId, given.SecretAccessKey, given.Token), tagged, other)
}
