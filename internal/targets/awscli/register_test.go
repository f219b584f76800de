package awscli

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

var (
	group   = targets.Group{ID: "arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/web/73e2d6bc24d8a067", Balancer: targets.Network}
	classic = targets.Group{ID: "old", Balancer: targets.Classic}
)

func registration(id string, port int32, zone string) targets.Registration {
	return targets.Registration{Target: targets.Target{ID: id, Port: port}, Zone: zone}
}

func TestRegister(t *testing.T) {
	some := []targets.Registration{registration("10.0.0.1", 80, ""), registration("2001:db8::1", 81, "all")}
	nodes := []targets.Registration{registration("i-1", 30080, ""), registration("i-1", 30443, ""), registration("i-2", 30080, "")}
	for _, test := range []struct {
		group  targets.Group
		region string
		rs     []targets.Registration
		want   []string
	}{
		{group, "", some, []string{"aws elbv2 register-targets --target-group-arn " + group.ID +
			" --region eu-west-1 --targets Id=10.0.0.1,Port=80 Id=2001:db8::1,Port=81,AvailabilityZone=all"}},
		{group, "of-the-node", some[:1], []string{"aws elbv2 register-targets --target-group-arn " + group.ID + " --region eu-west-1 --targets Id=10.0.0.1,Port=80"}},
		{group, "", nil, nil},
		{classic, "", nodes, []string{"aws elb register-instances-with-load-balancer --load-balancer-name old --instances i-1 i-2"}},
		{classic, "eu-north-1", nodes[:1], []string{"aws elb register-instances-with-load-balancer --load-balancer-name old --region eu-north-1 --instances i-1"}},
	} {
		if diff := cmp.Diff(test.want, Register(test.region, test.group, test.rs)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestRegisterInChunks(t *testing.T) {
	var rs []targets.Registration
	for i := range 450 {
		rs = append(rs, registration(fmt.Sprint("i-", i), 80, ""))
	}
	lines := Register("", group, rs)
	if len(lines) != 3 || strings.Count(lines[0], "Id=") != 200 || strings.Count(lines[2], "Id=") != 50 {
		t.Errorf("%d lines for 450 targets", len(lines))
	}
}

// TestLinesAreQuoted lets a shell take them apart.
func TestLinesAreQuoted(t *testing.T) {
	for _, name := range []string{"plain", "two words", "it's", `"$(id)"`, "a;b|c&d", "*", "new\nline", `back\slash`, ""} {
		line := Register("", targets.Group{ID: name, Balancer: targets.Classic}, []targets.Registration{registration("i-1", 80, "")})[0]
		out, err := exec.Command("sh", "-c", `aws() { printf '<%s>' "$@"; }; `+line).CombinedOutput()
		if want := "<elb><register-instances-with-load-balancer><--load-balancer-name><" + name + "><--instances><i-1>"; err != nil || string(out) != want {
			t.Errorf("%s\nis taken for %s, want %s; %v", line, out, want, err)
		}
	}
}
