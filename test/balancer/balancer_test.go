package balancer

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/audit"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

// theFixture is shared by the cases, which take turns.
var theFixture *Fixture

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Main("ids-balancer", func(ctx context.Context, dir string) int { return run(ctx, dir, m) }))
}

func run(ctx context.Context, dir string, m *testing.M) int {
	var err error
	theFixture, err = SetUp(ctx, Options{Dir: dir, Scale: 10, Seed: uint64(time.Now().UnixNano()), Log: os.Stdout})
	if err != nil {
		fmt.Println("setting up:", err)
		return 1
	}
	defer theFixture.Close()
	code := m.Run()
	if err := checkPermissions(ctx); err != nil {
		fmt.Println(err)
		code = 1
	}
	return code
}

// TestCases runs every case, and loses no request.
func TestCases(t *testing.T) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			result, err := theFixture.Run(t.Context(), c)
			if result.Story != "" && !c.Loses {
				t.Logf("what happened:\n%s\n%s", result.Story, result.Report)
			}
			if err != nil {
				t.Fatal(err)
			}
			var report Report
			report.Add(c, result)
			report.Print(os.Stdout)
			if err := report.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// forClassic are the permissions that only classic load balancers need. There is none.
var forClassic = []string{
	"elasticloadbalancing:DeregisterInstancesFromLoadBalancer",
	"elasticloadbalancing:DescribeInstanceHealth",
	"elasticloadbalancing:RegisterInstancesWithLoadBalancer",
}

// checkPermissions compares what config/rbac, config/loadbalancers and config/aws grant
// with what was done in all cases: nothing is missing, and of the last nothing is too
// much.
func checkPermissions(ctx context.Context) error {
	events, err := audit.Read(theFixture.AuditLog(), audit.Account("system:serviceaccount:"+harness.Namespace+":"+serviceAccount))
	if err != nil {
		return err
	}
	if err := audit.Check("the controller", events, false, nil); err != nil {
		return err
	}
	calls, err := theFixture.account.admin.Calls(ctx, 0)
	if err != nil {
		return err
	}
	for _, c := range calls {
		if c.Outcome == "AccessDenied" {
			return fmt.Errorf("the controller may not: %+v", c)
		}
	}
	if flag.Lookup("test.run").Value.String() != "" {
		return nil // It takes all cases to use all permissions.
	}
	grants, err := theFixture.account.admin.UnusedGrants(ctx)
	if err != nil {
		return err
	}
	var unused []string
	for _, g := range grants {
		if g.Owner == roleARN {
			unused = append(unused, g.Action)
		}
	}
	slices.Sort(unused)
	if !slices.Equal(unused, forClassic) {
		return fmt.Errorf("config/aws/policy.json grants %v, which was not used; that is to be %v", unused, forClassic)
	}
	return nil
}
