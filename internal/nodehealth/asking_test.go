package nodehealth_test

import (
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
)

// TestAsking is quiet three of the longest interval after the last request, and not
// between two checks of the slowest load balancer, which come every 5 minutes.
func TestAsking(t *testing.T) {
	for name, c := range map[string]struct {
		asked []time.Duration
		want  *v1alpha1.Asked
		quiet time.Duration
	}{
		"never":                {nil, nil, nodehealth.QuietAtLeast},
		"once":                 {[]time.Duration{time.Minute}, &v1alpha1.Asked{}, time.Minute + nodehealth.QuietAtLeast},
		"every few seconds":    {[]time.Duration{10 * time.Second, 20 * time.Second, 25 * time.Second}, &v1alpha1.Asked{IntervalSeconds: 10}, 25*time.Second + nodehealth.QuietAtLeast},
		"every five minutes":   {[]time.Duration{5 * time.Minute, 10 * time.Minute}, &v1alpha1.Asked{IntervalSeconds: 300}, 25 * time.Minute},
		"with one long break":  {[]time.Duration{0, time.Second, 10 * time.Minute, 10*time.Minute + time.Second}, &v1alpha1.Asked{IntervalSeconds: 599}, 10*time.Minute + time.Second + 3*599*time.Second},
		"again after it ended": {[]time.Duration{0, time.Hour}, &v1alpha1.Asked{IntervalSeconds: 3600}, 4 * time.Hour},
	} {
		a := nodehealth.Asking{Since: noon, AtLeast: nodehealth.QuietAtLeast}
		for _, at := range c.asked {
			a.Add("10.0.0.9", noon.Add(at))
		}
		if got := a.QuietAt(); !got.Equal(noon.Add(c.quiet)) {
			t.Errorf("%s: quiet at %s, want %s", name, got, noon.Add(c.quiet))
		}
		asked, quiet := a.Told(noon.Add(c.quiet - time.Second))
		if _, after := a.Told(noon.Add(c.quiet)); quiet || !after {
			t.Errorf("%s: quiet a second before: %t, then: %t", name, quiet, after)
		}
		if c.want == nil && asked == nil {
			continue
		}
		c.want.By, c.want.SecondsAgo = "10.0.0.9", (c.quiet - time.Second - c.asked[len(c.asked)-1]).Seconds()
		if *asked != *c.want {
			t.Errorf("%s: %+v, want %+v", name, *asked, *c.want)
		}
	}
}
