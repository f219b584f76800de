package aws

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/api"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

func TestQUICThroughTheAPI(t *testing.T) {
	f := serve(t, func(c *Config) {
		c.TargetGroups = append(c.TargetGroups, cloud.TargetGroup{Name: "quic", Protocol: "TCP_QUIC", Port: 443, TargetType: "ip", AssumeHealthy: true})
	})
	described, err := f.elb().DescribeTargetGroups(t.Context(), &elb.DescribeTargetGroupsInput{Names: []string{"quic"}})
	f.must(err)
	f.expect("protocol", described.TargetGroups[0].Protocol, types.ProtocolEnumTcpQuic)
	f.refused(f.register("quic", pod), "ValidationError", "QuicServerId is required")
	const id = "0x0123456789abcdef"
	_, err = f.elb().RegisterTargets(t.Context(), &elb.RegisterTargetsInput{TargetGroupArn: f.arn("quic"), Targets: []types.TargetDescription{{Id: sdk.String(pod), QuicServerId: sdk.String(id)}}})
	f.must(err)
	health, err := f.elb().DescribeTargetHealth(t.Context(), &elb.DescribeTargetHealthInput{TargetGroupArn: f.arn("quic")})
	f.must(err)
	f.expect("server id", *health.TargetHealthDescriptions[0].Target.QuicServerId, id)
	f.must(f.deregister("quic", pod))
}

func TestZonalShiftThroughTheAPI(t *testing.T) {
	f := serve(t, func(c *Config) {
		assumed(c)
		c.TargetGroups[0].Attributes[cutOnUnhealthy] = "false"
		c.LoadBalancers[0].Attributes = map[string]string{crossZone: "true", "zonal_shift.config.enabled": "true"}
	})
	f.must(f.register("pods", pod, other))
	override := func(id string) string {
		health, err := f.elb().DescribeTargetHealth(t.Context(), &elb.DescribeTargetHealthInput{TargetGroupArn: f.arn("pods"), Targets: targets(id)})
		f.must(err)
		o := health.TargetHealthDescriptions[0].AdministrativeOverride
		if o == nil || *o.Description == "" {
			return "none"
		}
		return words(o.State, o.Reason)
	}
	f.expect("before", override(pod), "no_override AdministrativeOverride.NoOverride")
	f.must(f.admin.ShiftZone(t.Context(), "front", zoneA))
	f.expect("in the zone", override(pod), "zonal_shift_active AdministrativeOverride.ZonalShiftActive")
	f.expect("in the other", override(other), "no_override AdministrativeOverride.NoOverride")
	f.expect("what is not registered", override(local(1, 77)), "none")
	f.must(f.admin.ShiftZone(t.Context(), "front", ""))
	f.expect("afterwards", override(pod), "no_override AdministrativeOverride.NoOverride")
	if err := f.admin.ShiftZone(t.Context(), "front", "mars"); err == nil {
		t.Error("a shift away from a zone that there is not was taken")
	}
}

// AWS says that deregistering what is not registered succeeds, and lists InvalidTarget among
// the errors of the call. Either can be had.
func TestRefusedDeregistrations(t *testing.T) {
	f := serve(t, assumed)
	f.must(f.register("pods", pod, other))
	var invalid *types.InvalidTargetException
	f.must(f.deregister("pods", local(1, 99)))
	f.must(f.admin.SetFaults(t.Context(), api.Fault{Kind: api.RefuseUnregistered, Action: "DeregisterTargets"}))
	err := f.deregister("pods", pod, local(1, 99))
	f.expect("one of two is not registered: InvalidTarget", errors.As(err, &invalid), true)
	f.refused(err, "InvalidTarget", "not registered with the target group: '"+local(1, 99)+"'")
	f.expect("the other of that call", strings.HasPrefix(f.state("pods", pod), "initial"), true)
	f.must(f.deregister("pods", pod))
	f.refused(f.deregister("pods", pod), "InvalidTarget", pod) // it drains, and is not registered any more

	f.must(f.admin.SetFaults(t.Context(), api.Fault{Kind: api.Refuse, Code: "InvalidTarget", Action: "DeregisterTargets", Target: other}))
	f.refused(f.deregister("pods", local(1, 98), other), "InvalidTarget", "")
	f.expect("the one that is refused", strings.HasPrefix(f.state("pods", other), "initial"), true)
	f.must(f.deregister("pods", local(1, 98)))
	calls, err := f.admin.Calls(t.Context(), 0)
	f.must(err)
	refused := calls[len(calls)-3]
	f.expect("the refused one in the log", words(refused.Action, refused.Outcome, refused.CarriedOut), "DeregisterTargets InvalidTarget false")
	f.must(f.admin.SetFaults(t.Context()))
	f.must(f.deregister("pods", other))
	if err := f.admin.SetFaults(t.Context(), api.Fault{Kind: api.Refuse, Action: "*"}); err == nil {
		t.Error("a refusal without a code was taken")
	}
}

// The SDK finds the region by the instance metadata service.
func TestRegionOfTheInstance(t *testing.T) {
	f := serve(t, func(c *Config) { c.Listen.Metadata = "127.0.0.1:0" })
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://"+f.Metadata)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "")
	loaded, err := config.LoadDefaultConfig(t.Context(), config.WithEC2IMDSRegion())
	f.must(err)
	f.expect("region", loaded.Region, region)
	for path, wanted := range map[string]int{
		"/latest/meta-data/placement/region":          http.StatusUnauthorized,
		"/latest/dynamic/instance-identity/document":  http.StatusUnauthorized,
		"/latest/meta-data/iam/security-credentials/": http.StatusNotFound,
	} {
		response, err := http.Get("http://" + f.Metadata + path)
		f.must(err)
		response.Body.Close()
		f.expect(path+" without a token", response.StatusCode, wanted)
	}
	ask := func(method, path, header, value string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+f.Metadata+path, nil)
		f.must(err)
		r.Header.Set(header, value)
		response, err := http.DefaultClient.Do(r)
		f.must(err)
		defer response.Body.Close()
		text := make([]byte, 256)
		n, _ := response.Body.Read(text)
		return response.StatusCode, string(text[:n])
	}
	status, _ := ask("PUT", "/latest/api/token", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21601")
	f.expect("a token for longer than 6 hours", status, http.StatusBadRequest)
	_, token := ask("PUT", "/latest/api/token", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
	_, text := ask("GET", "/latest/meta-data/placement/region", "X-Aws-Ec2-Metadata-Token", token)
	f.expect("region", text, region)
	_, text = ask("GET", "/latest/meta-data/placement/availability-zone", "X-Aws-Ec2-Metadata-Token", token)
	f.expect("zone", text, zoneA)
}
