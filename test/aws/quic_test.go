package aws

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

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
