package controller

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

// TestNobodyActsAsARoleThatIsNotPermitted: an account of such a role connects to nothing, and
// says why in the next pass. ARN and external ID count together.
func TestNobodyActsAsARoleThatIsNotPermitted(t *testing.T) {
	const arn = "arn:aws:iam::111111111111:role/a"
	permitted := v1alpha1.AssumeRole{ARN: arn, ExternalID: "ours"}
	for name, c := range map[string]struct {
		role v1alpha1.AssumeRole
		says string
	}{
		"permitted":          {permitted, ""},
		"ourselves":          {v1alpha1.AssumeRole{}, ""},
		"without an ID":      {v1alpha1.AssumeRole{ARN: arn}, "role " + arn + " may not be assumed without an external ID: "},
		"by another's ID":    {v1alpha1.AssumeRole{ARN: arn, ExternalID: "theirs"}, "role " + arn + " may not be assumed with the external ID that is given: "},
		"another of that ID": {v1alpha1.AssumeRole{ARN: arn + "b", ExternalID: "ours"}, "role " + arn + "b may not be assumed"},
	} {
		t.Run(name, func(t *testing.T) {
			connected, triggered := make(chan bool, 10), make(chan bool, 10)
			r := reconcilerOf(t, nil)
			clear(r.accounts)
			r.Roles, r.trigger = []v1alpha1.AssumeRole{permitted}, func() { triggered <- true }
			r.Connect = func(*v1alpha1.AssumeRole, func(context.Context) error) (Cloud, error) {
				connected <- true
				return nil, errors.New("nobody is there")
			}
			r.useAccounts(targets.Decision{Accounts: []targets.AccountPlan{{Role: c.role, Tags: true, Named: []targets.GroupName{{Name: "web"}}}}})
			<-triggered
			known := r.accounts[c.role].observe(c.role)
			if known.Refused != (c.says != "") || !strings.HasPrefix(known.Failure, c.says) || strings.Contains(known.Failure, "theirs") {
				t.Errorf("%+v", known)
			}
			if c.says == "" {
				<-connected
			} else if len(connected) > 0 {
				t.Error("it is connected")
			}
		})
	}
}
