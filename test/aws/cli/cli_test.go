package cli

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/access"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// account is an account of the emulator, to which command lines speak.
func account(t *testing.T) *aws.Server {
	t.Helper()
	server, err := aws.Start(t.Context(), aws.Config{
		Spec: cloud.Spec{Seed: 1, Scale: 10, VPC: cloud.VPC{Subnets: []cloud.Subnet{
			{ID: "subnet-a", CIDR: netip.MustParsePrefix("10.0.0.0/16"), Zone: "eu-central-1a"}, {ID: "subnet-b", CIDR: netip.MustParsePrefix("10.1.0.0/16"), Zone: "eu-central-1b"},
		}}},
		Access: access.Config{Users: []access.User{{Name: "somebody", AccessKeyID: "AKIASOMEBODY", SecretKey: "secret", Policy: json.RawMessage(`{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}`)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": "http://" + server.API, "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "AKIASOMEBODY", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_CONFIG_FILE": t.TempDir() + "/none", "AWS_SHARED_CREDENTIALS_FILE": t.TempDir() + "/none",
	} {
		t.Setenv(name, value)
	}
	return server
}

// said is what a command line prints, whose words are separated by spaces.
func said(t *testing.T, line string, more ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := Run(t.Context(), append(strings.Fields(line), more...), &out)
	return strings.TrimSuffix(out.String(), "\n"), err
}

func mustSay(t *testing.T, line string, more ...string) string {
	t.Helper()
	out, err := said(t, line, more...)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return out
}

// TestFromNothing makes a group behind a load balancer, changes it, registers a target, and deletes it all.
func TestFromNothing(t *testing.T) {
	server := account(t)
	if got := mustSay(t, "sts get-caller-identity --query Account --output text"); got != "123456789012" {
		t.Errorf("the account is %s", got)
	}
	group := mustSay(t, "elbv2 create-target-group --name web --vpc-id vpc-1 --target-type ip --protocol TCP --port 8080 --health-check-protocol HTTP --health-check-port 10254 "+
		"--health-check-path /healthz --healthy-threshold-count 2 --matcher HttpCode=200 --tags Key=team,Value=web --query TargetGroups[0].TargetGroupArn --output text")
	mustSay(t, "elbv2 modify-target-group-attributes --attributes Key=deregistration_delay.timeout_seconds,Value=60 --target-group-arn "+group)
	mustSay(t, "elbv2 add-tags --tags Key=team,Value=api Key=more,Value=1 --resource-arns "+group)
	balancer := mustSay(t, "elbv2 create-load-balancer --name front --type network --subnets subnet-a subnet-b --security-groups sg-1 --query LoadBalancers[0].LoadBalancerArn --output text")
	mustSay(t, "elbv2 wait load-balancer-available --load-balancer-arns "+balancer)
	mustSay(t, "elbv2 modify-load-balancer-attributes --attributes Key=load_balancing.cross_zone.enabled,Value=true --load-balancer-arn "+balancer)
	mustSay(t, "elbv2 create-listener --load-balancer-arn "+balancer+" --protocol TCP --port 80 --default-actions Type=forward,TargetGroupArn="+group)
	mustSay(t, "elbv2 register-targets --target-group-arn "+group+" --targets Id=10.0.0.1 Id=10.0.0.2,Port=81")
	got := mustSay(t, "elbv2 describe-target-health --target-group-arn "+group+" --output text --query", "TargetHealthDescriptions[].[Target.Id, Target.Port, TargetHealth.State]")
	if want := "10.0.0.1\t8080\tinitial\n10.0.0.2\t81\tinitial"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := mustSay(t, "elbv2 describe-load-balancers --query LoadBalancers[].SecurityGroups[] --output text"); got != "sg-1" {
		t.Errorf("the security groups are %q", got)
	}

	admin := aws.NewClient(server.Admin)
	groups, err := admin.TargetGroups(t.Context())
	if err != nil || len(groups) != 1 {
		t.Fatalf("%v, %v", groups, err)
	}
	g := groups[0]
	if g.Attributes["deregistration_delay.timeout_seconds"] != "60" || g.Attributes["stickiness.enabled"] != "false" || g.Tags["team"] != "api" || g.Tags["more"] != "1" ||
		g.HealthCheck.Port != "10254" || g.HealthCheck.HealthyThreshold != 2 || g.HealthCheck.Matcher != "200" || len(g.Balancers) != 1 {
		t.Errorf("%+v", g)
	}
	balancers, err := admin.LoadBalancers(t.Context())
	if err != nil || len(balancers) != 1 || len(balancers[0].Zones) != 2 || balancers[0].Attributes["load_balancing.cross_zone.enabled"] != "true" {
		t.Errorf("%+v, %v", balancers, err)
	}

	if out, err := said(t, "elbv2 delete-target-group --target-group-arn "+group); err == nil || !strings.Contains(err.Error(), "ResourceInUse") {
		t.Errorf("a group with a listener is deleted: %s, %v", out, err)
	}
	for range 2 {
		mustSay(t, "elbv2 delete-load-balancer --load-balancer-arn "+balancer)
		mustSay(t, "elbv2 wait load-balancers-deleted --load-balancer-arns "+balancer)
		mustSay(t, "elbv2 delete-target-group --target-group-arn "+group)
	}
	groups, err = admin.TargetGroups(t.Context())
	if balancers, failed := admin.LoadBalancers(t.Context()); err != nil || failed != nil || len(groups)+len(balancers) > 0 {
		t.Errorf("left: %v, %v, %v, %v", groups, balancers, err, failed)
	}
}

// TestRefused is what is no command line of the CLI, or asks for what AWS refuses.
func TestRefused(t *testing.T) {
	account(t)
	group := mustSay(t, "elbv2 create-target-group --name web --vpc-id vpc-1 --protocol TCP --port 80 --query TargetGroups[0].TargetGroupArn --output text")
	balancer := mustSay(t, "elbv2 create-load-balancer --name front --type network --subnets subnet-a --query LoadBalancers[0].LoadBalancerArn --output text")
	listener := "elbv2 create-listener --protocol TCP --port 80 --default-actions Type=forward,TargetGroupArn=" + group + " --load-balancer-arn " + balancer
	mustSay(t, listener)
	for line, want := range map[string]string{
		"elbv2": "needs a service and an operation",
		"ec2 describe-subnets --filters Name=vpc-id,Values=vpc-1":                                   "aws ec2 is not imitated",
		"elbv2 describe-target-halth --target-group-arn " + group:                                   "no such operation",
		"elbv2 describe-target-health --target-groups-arn " + group:                                 "--target-groups-arn: the operation has no such option",
		"elbv2 describe-target-health " + group:                                                     "is no option",
		"elbv2 describe-target-health --target-group-arn " + group + " --target-group-arn " + group: "it is there twice",
		"elbv2 describe-target-health --target-group-arn a b":                                       "it has 2 values, and takes one",
		"elbv2 describe-target-health --target-group-arn " + group + " --query length(@)":           "is not imitated",
		"elbv2 describe-target-health --target-group-arn " + group + " --output table":              "--output table is not imitated",
		"elbv2 describe-target-health --target-group-arn " + group + " --query":                     "--query needs a value",
		"elbv2 register-targets --target-group-arn " + group + " --targets Ids=10.0.0.1":            `"Ids=10.0.0.1" is not NAME=VALUE with a name of types.TargetDescription`,
		"elbv2 register-targets --target-group-arn " + group + " --targets Id=10.0.0.1,Port=http":   "invalid syntax",
		"elbv2 register-targets --target-group-arn " + group + " --targets":                         "it needs a value",
		"elbv2 register-targets --target-group-arn " + group:                                        "Targets",
		"elbv2 create-target-group --name more --vpc-id vpc-1 --protocol TPC --port 80":             `"TPC" is none of`,
		"elbv2 create-target-group --name web --vpc-id vpc-1 --protocol TCP --port 80":              "DuplicateTargetGroupName",
		"elbv2 create-target-group --name more --vpc-id vpc-2 --protocol TCP --port 80":             "'vpc-2' is not found",
		"elbv2 create-load-balancer --name front --type network --subnets subnet-a":                 "DuplicateLoadBalancerName",
		"elbv2 create-load-balancer --name more --type network --subnets subnet-c":                  "SubnetNotFound",
		"elbv2 create-load-balancer --name more --type network --subnets subnet-a subnet-a":         "multiple subnets in the same Availability Zone",
		listener: "DuplicateListener",
		"elbv2 modify-target-group-attributes --attributes Key=no.such,Value=1 --target-group-arn " + group: "no.such is not known",
		"elbv2 add-tags --tags Key=a,Value=b --resource-arns " + strings.Replace(group, "web", "gone", 1):   "TargetGroupNotFound",
		"elbv2 wait target-deregistered --target-group-arn " + group:                                        "aws wait target-deregistered is not imitated",
	} {
		if out, err := said(t, line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nsays %q, and fails with %v, want %s", line, out, err, want)
		}
	}
}

// TestQuery finds in an answer what JMESPath would.
func TestQuery(t *testing.T) {
	var answer any
	if err := json.Unmarshal([]byte(`{"Groups": [{"Id": "a", "Port": 80, "Health": {"State": "healthy"}, "On": true}, {"Id": "b", "Port": 8080}]}`), &answer); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"Groups[0].Id": "a", "Groups[1].Port": "8080", "Groups[2].Id": "None", "Groups[].Id": "a\tb", "Groups[].Health.State": "healthy", "Groups[0].On": "True",
		"Groups[].[Id, Port]": "a\t80\nb\t8080", "Groups[].[Id,Health.State]": "a\thealthy\nb\tNone", "Nothing": "None", "Nothing[].Id": "", "Groups[0].[Id]": "a",
	} {
		found, err := query(answer, path)
		if got := text(found); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
}
