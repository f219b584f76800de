package aws

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/api"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// largest is AWS's quota of target groups in a region.
const largest = 3000

// large is an account of so many groups, of which every third has targets that are
// instances.
func large(c *Config) {
	for i := range largest {
		c.TargetGroups = append(c.TargetGroups, cloud.TargetGroup{
			Name: fmt.Sprintf("group-%04d", i), Protocol: "TCP", Port: 80, TargetType: map[bool]string{true: "instance", false: "ip"}[i%3 == 0], AssumeHealthy: true,
			Tags: map[string]string{"number": fmt.Sprint(i)},
		})
	}
}

// pages reads all groups, and calls a function after each page with the names so far.
func (f *fixture) pages(between func(page int, names []string)) []string {
	f.Helper()
	var names []string
	// A connection may break within a large answer, as it may with AWS.
	again := func(o *elb.Options) { o.Retryer = retry.NewStandard() }
	pages := elb.NewDescribeTargetGroupsPaginator(f.elb(), &elb.DescribeTargetGroupsInput{})
	for n := 1; pages.HasMorePages(); n++ {
		page, err := pages.NextPage(f.Context(), again)
		f.must(err)
		for _, g := range page.TargetGroups {
			names = append(names, *g.TargetGroupName)
		}
		between(n, names)
	}
	return names
}

// An account of as many groups as AWS allows is read in pages of 400 groups, tags of 20
// groups a call and attributes of one.
func TestALargeAccount(t *testing.T) {
	f := serve(t, large)
	count := 0
	names := f.pages(func(page int, names []string) { count = page })
	f.expect("pages", count, 8)
	f.expect("groups", len(slices.Compact(names)), largest)
	begun := time.Now()
	groups, err := f.admin.TargetGroups(t.Context())
	f.must(err)
	var tagged int
	for chunk := range slices.Chunk(groups, 20) {
		var arns []string
		for _, g := range chunk {
			arns = append(arns, g.ARN)
		}
		tags, err := f.elb().DescribeTags(t.Context(), &elb.DescribeTagsInput{ResourceArns: arns})
		f.must(err)
		for i, d := range tags.TagDescriptions {
			if *d.ResourceArn == chunk[i].ARN && *d.Tags[0].Value == chunk[i].Tags["number"] {
				tagged++
			}
		}
	}
	f.expect("groups with their tags", tagged, largest)
	for _, g := range groups[:100] {
		attributes, err := f.elb().DescribeTargetGroupAttributes(t.Context(), &elb.DescribeTargetGroupAttributesInput{TargetGroupArn: &g.ARN})
		f.must(err)
		if len(attributes.Attributes) < 10 {
			t.Fatalf("%s has %d attributes", g.Name, len(attributes.Attributes))
		}
	}
	t.Logf("tags of all and attributes of 100 took %v without limits", time.Since(begun))
}

// A group that is deleted between two pages takes no other with it, and what is made
// meanwhile moves nothing.
func TestGroupsThatAreDeletedBetweenPages(t *testing.T) {
	f := serve(t, large)
	gone := []string{"group-0005", "group-0399", "group-0400", "group-1700"}
	names := f.pages(func(page int, names []string) {
		if page != 1 {
			return
		}
		f.expect("last of the first page", names[len(names)-1], "group-0399")
		for _, name := range gone {
			f.must(f.admin.DeleteTargetGroup(t.Context(), name))
		}
		f.must(f.admin.PutTargetGroup(t.Context(), cloud.TargetGroup{Name: "early", Protocol: "TCP", Port: 80, TargetType: "ip"}))
	})
	f.expect("groups", len(names), largest-2) // of the first page two are gone by now
	f.expect("none twice", len(slices.Compact(slices.Clone(names))), len(names))
	f.expect("a group of the next page", slices.Contains(names, "group-0401"), true)
	f.expect("a deleted one", slices.Contains(names, "group-0400"), false)
}

// A deleted group fails all that is asked of it, and the whole of a DescribeTags that names
// it among others.
func TestADeletedGroupFailsTheCallsThatNameIt(t *testing.T) {
	f := serve(t, large)
	one, other := *f.arn("group-0001"), *f.arn("group-0002")
	f.must(f.admin.DeleteTargetGroup(t.Context(), "group-0001"))
	var notFound *types.TargetGroupNotFoundException
	_, err := f.elb().DescribeTags(t.Context(), &elb.DescribeTagsInput{ResourceArns: []string{other, one}})
	f.expect("tags: "+fmt.Sprint(err), errors.As(err, &notFound), true)
	_, err = f.elb().DescribeTargetGroupAttributes(t.Context(), &elb.DescribeTargetGroupAttributesInput{TargetGroupArn: &one})
	f.expect("attributes: "+fmt.Sprint(err), errors.As(err, &notFound), true)
	_, err = f.elb().DescribeTargetHealth(t.Context(), &elb.DescribeTargetHealthInput{TargetGroupArn: &one})
	f.expect("health: "+fmt.Sprint(err), errors.As(err, &notFound), true)
	_, err = f.elb().DescribeTags(t.Context(), &elb.DescribeTagsInput{ResourceArns: []string{other}})
	f.must(err)
}

// Without other limits those of AWS hold: 40 calls that describe, at once, and 10 a second.
// What is refused is an error that the SDK takes for throttling.
func TestThrottlingOfTheAccount(t *testing.T) {
	f := serve(t, func(c *Config) { assumed(c); c.Limits = nil })
	in := &elb.DescribeTargetHealthInput{TargetGroupArn: f.arn("pods")}
	burst := func(calls int) (done int64) {
		var all sync.WaitGroup
		var passed, throttled atomic.Int64
		isThrottle := retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}
		for range calls {
			all.Go(func() {
				switch _, err := f.elb().DescribeTargetHealth(t.Context(), in); {
				case err == nil:
					passed.Add(1)
				case isThrottle.IsErrorThrottle(err) == sdk.TrueTernary:
					throttled.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		f.expect("passed or throttled", passed.Load()+throttled.Load(), int64(calls))
		return passed.Load()
	}
	begun := time.Now()
	n, most := burst(100), int64(41+10*time.Since(begun).Seconds())
	if n < 40 || n > most {
		t.Errorf("%d of 100 calls at once passed, not 40 to %d", n, most)
	}
	f.must(f.admin.SetLimits(t.Context(), api.Limits{"v2 Describe": {Capacity: 7, Refill: 0.001}}))
	f.expect("with a bucket of 7", burst(20), int64(7))
	f.must(f.admin.SetLimits(t.Context(), nil))
	if n := burst(60); n < 40 {
		t.Errorf("with AWS's bucket again: %d of 60", n)
	}
	if err := f.admin.SetLimits(t.Context(), api.Limits{"v2 Modify": {}}); err == nil {
		t.Error("a class that there is not was taken")
	}
}
