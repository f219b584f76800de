package aws

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

func TestCommands(t *testing.T) {
	some := []targets.Registration{registration("10.0.0.1", 80, ""), registration("2001:db8::1", 81, "all")}
	nodes := []targets.Registration{registration("i-1", 30080, ""), registration("i-1", 30443, ""), registration("i-2", 30080, "")}
	for _, test := range []struct {
		group targets.Group
		class Class
		rs    []targets.Registration
		want  []string
	}{
		{ipGroup, Register, some, []string{"aws elbv2 register-targets --target-group-arn " + ipGroup.ID +
			" --region eu-west-1 --targets Id=10.0.0.1,Port=80 Id=2001:db8::1,Port=81,AvailabilityZone=all"}},
		{ipGroup, Deregister, some, []string{"aws elbv2 deregister-targets --target-group-arn " + ipGroup.ID +
			" --region eu-west-1 --targets Id=10.0.0.1,Port=80 Id=2001:db8::1,Port=81"}},
		{ipGroup, Read, nil, []string{"aws elbv2 describe-target-health --target-group-arn " + ipGroup.ID + " --region eu-west-1"}},
		{ipGroup, Deregister, nil, nil},
		{classicGroup, Register, nodes, []string{"aws elb register-instances-with-load-balancer --load-balancer-name old --instances i-1 i-2"}},
		{classicGroup, Deregister, nodes[:1], []string{"aws elb deregister-instances-from-load-balancer --load-balancer-name old --instances i-1"}},
		{classicGroup, Read, nodes, []string{"aws elb describe-instance-health --load-balancer-name old --instances i-1 i-2"}},
	} {
		if diff := cmp.Diff(test.want, Commands("", test.group, test.class, test.rs)); diff != "" {
			t.Error(diff)
		}
	}
	if got := Commands("eu-north-1", classicGroup, Read, nil)[0]; !strings.Contains(got, " --region eu-north-1") {
		t.Error(got)
	}
}

func TestCommandsInChunks(t *testing.T) {
	var rs []targets.Registration
	for i := range 450 {
		rs = append(rs, registration(fmt.Sprint("i-", i), 80, ""))
	}
	lines := Commands("", instanceGroup, Register, rs)
	if len(lines) != 3 || strings.Count(lines[0], "Id=") != 200 || strings.Count(lines[2], "Id=") != 50 {
		t.Errorf("%d lines for 450 targets", len(lines))
	}
}

// TestCommandsAreQuoted lets a shell take them apart.
func TestCommandsAreQuoted(t *testing.T) {
	for _, name := range []string{"plain", "two words", "it's", `"$(id)"`, "a;b|c&d", "*", "new\nline", `back\slash`, ""} {
		g := targets.Group{ID: name, Balancer: targets.Classic}
		line := Commands("", g, Read, nil)[0]
		out, err := exec.Command("sh", "-c", `aws() { printf '<%s>' "$@"; }; `+line).CombinedOutput()
		if want := "<elb><describe-instance-health><--load-balancer-name><" + name + ">"; err != nil || string(out) != want {
			t.Errorf("%s\nis taken for %s, want %s; %v", line, out, want, err)
		}
	}
}
