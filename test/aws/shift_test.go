package aws

import (
	"testing"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
)

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
