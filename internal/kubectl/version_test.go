package kubectl

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func controllerOf(image, version string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: controllerName, Namespace: "default", Labels: map[string]string{labelOfName: controllerName}}}
	if version != "" {
		d.Labels[labelOfVersion] = version
	}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "proxy", Image: "proxy:9"}, {Name: "controller", Image: image}}
	return d
}

// TestVersion shows both versions, so that a difference is seen.
func TestVersion(t *testing.T) {
	f := newFakeAPI(t)
	if out, err := f.ids("version"); err == nil || !strings.Contains(err.Error(), "no controller was found") || !strings.Contains(out, "v0\n") {
		t.Errorf("without a controller: %v\n%s", err, out)
	}
	if out, err := f.ids("version", "-o", "json"); err == nil || !strings.Contains(out, `"controllers": []`) {
		t.Errorf("without a controller, for programs: %v\n%s", err, out)
	}
	f.put(kindDeployment, controllerOf("mumoshu/ingress-daemonset-controller:v0.2.0", ""))
	f.put(kindDeployment, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "another", Namespace: "default"}})
	out, err := f.ids("version")
	if want := "Client:       v0\nController:   v0.2.0 (deployment default/ingress-daemonset-controller, image mumoshu/ingress-daemonset-controller:v0.2.0)\n"; err != nil || out != want {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = f.ids("version", "-o", "json")
	var both struct {
		Client      string              `json:"client"`
		Controllers []controllerVersion `json:"controllers"`
	}
	if err != nil || json.Unmarshal([]byte(out), &both) != nil || both.Client != "v0" || len(both.Controllers) != 1 || both.Controllers[0].Version != "v0.2.0" {
		t.Errorf("%v\n%s", err, out)
	}
	asked := f.asked
	if out, err := f.ids("version", "--client"); err != nil || out != "Client:   v0\n" || f.asked != asked {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := f.ids("--version"); err != nil || !strings.Contains(out, "v0") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestVersionOf(t *testing.T) {
	for _, c := range []struct{ image, label, want string }{
		{"ids:v0.2.0", "", "v0.2.0"}, {"localhost:5000/ids:v0.2.0", "v0.1.0", "v0.2.0"}, {"localhost:5000/ids", "v0.1.0", "v0.1.0"}, {"ids:v0.2.0@sha256:01", "", "v0.2.0"},
		{"ids@sha256:01", "v0.1.0", "v0.1.0"}, {"ids@sha256:01", "", "unknown"}, {"ids:latest", "v0.1.0", "v0.1.0"}, {"ids:latest", "", "latest"},
	} {
		if got := versionOf(controllerOf(c.image, c.label)); got.Version != c.want || got.Image != c.image {
			t.Errorf("%s, label %q: %+v, want %s", c.image, c.label, got, c.want)
		}
	}
	if got := versionOf(&appsv1.Deployment{}); got.Version != "unknown" {
		t.Errorf("of no containers: %+v", got)
	}
}
