package targets

import (
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// FuzzRecord reads a record as it was written, or not at all: what would be read as another
// target could be taken out for it.
func FuzzRecord(f *testing.F) {
	for _, s := range []string{"", ":", "i-0:80", "[::1]:80", "10.0.0.1:80@eu-west-1a", "a:b:80", "[a]:80", "i-0:080", "i-0:-1", "i-0:99999999999", "i-0:80@", "@", "i-0:80@a@b"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, target, leaving string) {
		for _, s := range []string{target, leaving} {
			if r, err := ParseRegistration(s); err == nil && r.String() != s {
				t.Errorf("%q is read as %s", s, r)
			}
		}
		group := v1alpha1.AttachedGroup{ID: "g", Targets: []string{target}, Leaving: []v1alpha1.LeavingTarget{{Target: leaving}}}
		records, err := recordsOf(group, "owner")
		if err != nil {
			return
		}
		again, any := attachedGroup(Group{ID: "g"}, v1alpha1.AssumeRole{}, records, nil)
		if !any || len(again.Targets) != 1 || again.Targets[0] != target || len(again.Leaving) != 1 || again.Leaving[0].Target != leaving {
			t.Errorf("%+v is written again as %+v", group, again)
		}
	})
}

// FuzzInstanceID reads any providerID: an id that stands in records and calls as it is, or why
// there is none.
func FuzzInstanceID(f *testing.F) {
	for _, s := range []string{"", "aws:///eu-west-1a/i-0123456789abcdef0", "aws://i-1", "aws:///z/fargate-ip-10-0-0-1", "eks-hybrid:///r/c/n", "kind://docker/a/b", "aws:///z/i-a:b", "aws:///z/i-a@b", "gce://p/z/i-1", "aws:////", "aws:///z/i-]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, provider string) {
		id, why := InstanceID(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: provider}})
		switch {
		case (id == "") == (why == ""):
			t.Errorf("%q is the instance %q, or not: %q", provider, id, why)
		case id == "":
		case !strings.HasPrefix(id, "i-") || !strings.HasSuffix(provider, "/"+id):
			t.Errorf("%q is the instance %q", provider, id)
		default:
			r := Registration{Target: Target{ID: id, Port: 80}}
			if again, err := ParseRegistration(r.String()); err != nil || again != r {
				t.Errorf("%q is recorded as %s, and read as %+v: %v", provider, r, again, err)
			}
		}
	})
}
