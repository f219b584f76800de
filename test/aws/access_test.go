package aws

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/access"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// post sends a call that was signed by hand and then changed.
func (f *fixture) post(service, in string, at time.Time, key, secret string, change func(*http.Request)) (int, string) {
	f.Helper()
	body := "Action=GetCallerIdentity&Version=2011-06-15"
	if service == "elasticloadbalancing" {
		body = "Action=DescribeTargetGroups&Version=2015-12-01"
	}
	r, err := http.NewRequestWithContext(f.Context(), "POST", "http://"+f.API+"/", strings.NewReader(body))
	f.must(err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
	f.must(signer.NewSigner().SignHTTP(f.Context(), sdk.Credentials{AccessKeyID: key, SecretAccessKey: secret}, r, sum, service, in, at))
	if change != nil {
		change(r)
	}
	response, err := http.DefaultClient.Do(r)
	f.must(err)
	defer response.Body.Close()
	text := make([]byte, 4096)
	n, _ := response.Body.Read(text)
	return response.StatusCode, string(text[:n])
}

func TestSignatures(t *testing.T) {
	f := serve(t, nil)
	now := time.Now()
	for _, test := range []struct {
		name    string
		status  int
		code    string
		service string
		region  string
		at      time.Time
		key     string
		secret  string
		change  func(*http.Request)
	}{
		{"right", 200, "GetCallerIdentityResult", "sts", region, now, "AKIAADMIN", "admin-secret", nil},
		{"four minutes late", 200, "GetCallerIdentityResult", "sts", region, now.Add(-4 * time.Minute), "AKIAADMIN", "admin-secret", nil},
		{"six minutes late", 403, "Signature expired", "sts", region, now.Add(-6 * time.Minute), "AKIAADMIN", "admin-secret", nil},
		{"six minutes early", 403, "Signature not yet current", "sts", region, now.Add(6 * time.Minute), "AKIAADMIN", "admin-secret", nil},
		{"another secret", 403, "SignatureDoesNotMatch", "sts", region, now, "AKIAADMIN", "other-secret", nil},
		{"unknown key", 403, "InvalidClientTokenId", "sts", region, now, "AKIAOTHER", "admin-secret", nil},
		{"another region", 403, "valid region, not", "sts", "us-east-1", now, "AKIAADMIN", "admin-secret", nil},
		{"another service", 403, "correct service:", "iam", region, now, "AKIAADMIN", "admin-secret", nil},
		{"no signature", 403, "MissingAuthenticationToken", "sts", region, now, "AKIAADMIN", "admin-secret", func(r *http.Request) { r.Header.Del("Authorization") }},
		{"another method of signing", 400, "IncompleteSignature", "sts", region, now, "AKIAADMIN", "admin-secret", func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }},
		{"changed header", 403, "SignatureDoesNotMatch", "sts", region, now, "AKIAADMIN", "admin-secret", func(r *http.Request) {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		}},
		{"changed host", 403, "SignatureDoesNotMatch", "sts", region, now, "AKIAADMIN", "admin-secret", func(r *http.Request) { r.Host = "sts.amazonaws.com" }},
		{"unsigned header of AWS", 403, "must be a signed header", "sts", region, now, "AKIAADMIN", "admin-secret", func(r *http.Request) { r.Header.Set("X-Amz-Target", "x") }},
		{"a token of nobody", 403, "InvalidClientTokenId", "sts", region, now, "AKIAADMIN", "admin-secret", func(r *http.Request) {
			r.Header.Set("X-Amz-Security-Token", "x")
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "x-amz-date", "x-amz-date;x-amz-security-token", 1))
		}},
	} {
		if status, text := f.post(test.service, test.region, test.at, test.key, test.secret, test.change); status != test.status || !strings.Contains(text, test.code) {
			t.Errorf("%s: %d %s, not %d %s", test.name, status, text, test.status, test.code)
		}
	}
}

func TestAChangedBodyIsRefused(t *testing.T) {
	f := serve(t, nil)
	status, text := f.post("sts", region, time.Now(), "AKIAADMIN", "admin-secret", func(r *http.Request) {
		r.Body = io.NopCloser(strings.NewReader("Version=2011-06-15&Action=GetCallerIdentity"))
	})
	if status != 403 || !strings.Contains(text, "SignatureDoesNotMatch") {
		t.Errorf("%d %s", status, text)
	}
}

const restricted = `{"Version": "2012-10-17", "Statement": [
	{"Sid": "Read", "Effect": "Allow", "Action": ["elasticloadbalancing:Describe*", "ec2:DescribeInstances"], "Resource": "*"},
	{"Sid": "Write", "Effect": "Allow", "Action": ["elasticloadbalancing:RegisterTargets", "elasticloadbalancing:DeregisterTargets"],
	 "Resource": "arn:aws:elasticloadbalancing:*:*:targetgroup/*/*", "Condition": {"StringEquals": {"aws:ResourceTag/cluster": ["one", "two"]}}},
	{"Sid": "Classic", "Effect": "Allow", "Action": "elasticloadbalancing:RegisterInstancesWithLoadBalancer",
	 "Resource": "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/old"},
	{"Sid": "Assume", "Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "arn:aws:iam::123456789012:role/writer"}
]}`

func roles(c *Config) {
	assumed(c)
	other := c.TargetGroups[0]
	other.Name, other.Tags = "foreign", nil
	c.TargetGroups = append(c.TargetGroups, other)
	for _, name := range []string{"old", "older"} {
		c.ClassicLoadBalancers = append(c.ClassicLoadBalancers, cloud.ClassicLoadBalancer{
			Name: name, Zones: []cloud.Zone{{Name: zoneA}}, Listeners: []cloud.ClassicListener{{Protocol: "TCP", Port: 80, InstancePort: 80}},
			Check: cloud.ClassicCheck{Target: "TCP:80"}, AssumeHealthy: true,
		})
	}
	c.Access.Users = append(c.Access.Users, access.User{Name: "restricted", AccessKeyID: "AKIARESTRICTED", SecretKey: "secret", Policy: json.RawMessage(restricted)})
	trusted := access.Issuer{URL: "https://issuer", Audience: "sts.amazonaws.com", Subjects: []string{"system:serviceaccount:ingress:controller"}}
	c.Access.Roles = []access.Role{{Name: "writer", Policy: json.RawMessage(restricted), WebIdentity: &trusted, Principals: []string{"arn:aws:iam::123456789012:user/restricted"}, TagSession: true}}
	pods := trusted
	pods.Audience = "pods.eks.amazonaws.com"
	c.Access.PodIdentity = &access.Association{Role: "writer", Issuer: pods}
}

func TestPolicies(t *testing.T) {
	f := serve(t, roles)
	c := elb.NewFromConfig(f.config(static("AKIARESTRICTED", "secret")))
	register := func(group string) error {
		_, err := c.RegisterTargets(t.Context(), &elb.RegisterTargetsInput{TargetGroupArn: f.arn(group), Targets: targets(pod)})
		return err
	}
	_, err := c.DescribeTargetGroups(t.Context(), &elb.DescribeTargetGroupsInput{})
	f.must(err)
	f.must(register("pods"))
	f.refused(register("foreign"), "AccessDenied", "User: arn:aws:iam::123456789012:user/restricted is not authorized to perform: elasticloadbalancing:RegisterTargets on resource: "+
		*f.arn("foreign")+" because no identity-based policy allows the elasticloadbalancing:RegisterTargets action")
	registerInstance := func(balancer string) error {
		_, err := classic.NewFromConfig(f.config(static("AKIARESTRICTED", "secret"))).RegisterInstancesWithLoadBalancer(t.Context(),
			&classic.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: &balancer, Instances: bothInstances})
		return err
	}
	f.must(registerInstance("old"))
	f.refused(registerInstance("older"), "AccessDenied", "on resource: arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/older because")
	grants, err := f.admin.UnusedGrants(t.Context())
	f.must(err)
	unused := map[string]bool{}
	for _, g := range grants {
		if strings.HasSuffix(g.Owner, ":user/restricted") {
			unused[g.Statement+" "+g.Action] = true
		}
	}
	for grant, wanted := range map[string]bool{
		"Read elasticloadbalancing:Describe*": false, "Read ec2:DescribeInstances": true,
		"Write elasticloadbalancing:RegisterTargets": false, "Write elasticloadbalancing:DeregisterTargets": true,
	} {
		f.expect(grant+" is unused", unused[grant], wanted)
	}
}

// token is a JSON Web Token of a service account.
func token(t *testing.T, audience, subject string, expires time.Time, key *rsa.PrivateKey) string {
	t.Helper()
	encode := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := encode(map[string]string{"alg": "RS256"}) + "." + encode(map[string]any{"iss": "https://issuer", "aud": []string{audience}, "sub": subject, "exp": expires.Unix(),
		"kubernetes.io": map[string]any{"pod": map[string]string{"name": "proxy-1", "uid": "u-1"}}})
	if key == nil {
		return signed + ".unsigned"
	}
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

const controller = "system:serviceaccount:ingress:controller"

func tokenFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRolesAreAssumed(t *testing.T) {
	f := serve(t, roles)
	later := time.Now().Add(time.Hour)
	role := "arn:aws:iam::123456789012:role/writer"
	anonymous := sts.NewFromConfig(f.config(sdk.AnonymousCredentials{}))
	byUser := sts.NewFromConfig(f.config(static("AKIARESTRICTED", "secret")))
	for name, provider := range map[string]sdk.CredentialsProvider{
		"role":         stscreds.NewAssumeRoleProvider(byUser, role, func(o *stscreds.AssumeRoleOptions) { o.RoleSessionName = "session" }),
		"web identity": stscreds.NewWebIdentityRoleProvider(anonymous, role, stscreds.IdentityTokenFile(tokenFile(t, token(t, "sts.amazonaws.com", controller, later, nil))), func(o *stscreds.WebIdentityRoleOptions) { o.RoleSessionName = "session" }),
		"pod identity": endpointcreds.New("http://"+f.API+CredentialsPath, func(o *endpointcreds.Options) {
			o.AuthorizationToken = token(t, "pods.eks.amazonaws.com", controller, later, nil)
		}),
	} {
		identity, err := sts.NewFromConfig(f.config(provider)).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
		if err != nil || !strings.HasPrefix(*identity.Arn, "arn:aws:sts::123456789012:assumed-role/writer/") {
			t.Errorf("%s: %v %v", name, identity, err)
		}
	}
	_, err := f.sts().AssumeRole(t.Context(), &sts.AssumeRoleInput{RoleArn: &role, RoleSessionName: sdk.String("session")})
	f.refused(err, "AccessDenied", "sts:AssumeRole on resource: "+role) // the role does not trust this user
	for wanted, text := range map[string]string{
		"InvalidIdentityToken":  "no.token",
		"ExpiredTokenException": token(t, "sts.amazonaws.com", controller, time.Now().Add(-time.Second), nil),
		"AccessDenied":          token(t, "sts.amazonaws.com", "system:serviceaccount:ingress:other", later, nil),
	} {
		_, err := anonymous.AssumeRoleWithWebIdentity(t.Context(), &sts.AssumeRoleWithWebIdentityInput{RoleArn: &role, RoleSessionName: sdk.String("session"), WebIdentityToken: &text})
		f.refused(err, wanted, "")
	}
	wrong := token(t, "pods.eks.amazonaws.com", controller, later, nil)
	_, err = anonymous.AssumeRoleWithWebIdentity(t.Context(), &sts.AssumeRoleWithWebIdentityInput{RoleArn: &role, RoleSessionName: sdk.String("session"), WebIdentityToken: &wrong})
	f.refused(err, "InvalidIdentityToken", "audience")
}

func TestTokensAreVerified(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	f := serve(t, func(c *Config) {
		roles(c)
		c.Access.Roles[0].WebIdentity.Key = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	})
	assume := func(text string) error {
		_, err := sts.NewFromConfig(f.config(sdk.AnonymousCredentials{})).AssumeRoleWithWebIdentity(t.Context(), &sts.AssumeRoleWithWebIdentityInput{
			RoleArn: sdk.String("arn:aws:iam::123456789012:role/writer"), RoleSessionName: sdk.String("session"), WebIdentityToken: &text})
		return err
	}
	later := time.Now().Add(time.Hour)
	f.must(assume(token(t, "sts.amazonaws.com", controller, later, key)))
	f.refused(assume(token(t, "sts.amazonaws.com", controller, later, nil)), "InvalidIdentityToken", "signature")
}

func TestCredentialsExpire(t *testing.T) {
	t.Parallel()
	f := serve(t, func(c *Config) { roles(c); c.Access.LifetimeSeconds = 2 })
	text := token(t, "sts.amazonaws.com", controller, time.Now().Add(time.Hour), nil)
	provider := stscreds.NewWebIdentityRoleProvider(sts.NewFromConfig(f.config(sdk.AnonymousCredentials{})), "arn:aws:iam::123456789012:role/writer", stscreds.IdentityTokenFile(tokenFile(t, text)),
		func(o *stscreds.WebIdentityRoleOptions) { o.Duration = time.Hour }) // more than it gets
	given, err := provider.Retrieve(t.Context())
	f.must(err)
	kept := sts.NewFromConfig(f.config(sdk.CredentialsProviderFunc(func(context.Context) (sdk.Credentials, error) {
		c := given
		c.CanExpire = false // so that the client goes on using them
		return c, nil
	})))
	identify := func() error {
		_, err := kept.GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
		return err
	}
	f.must(identify())
	_, err = sts.NewFromConfig(f.config(credentials.NewStaticCredentialsProvider(given.AccessKeyID, given.SecretAccessKey, "another"))).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	f.refused(err, "InvalidClientTokenId", "")
	f.await("they expire", func() bool { return identify() != nil })
	f.refused(identify(), "ExpiredToken", "expired")
	// A client that looks at the expiry goes on working.
	fresh := sts.NewFromConfig(f.config(sdk.NewCredentialsCache(provider)))
	_, err = fresh.GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	f.must(err)
}
