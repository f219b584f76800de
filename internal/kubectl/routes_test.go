package kubectl

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/listing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// putFile stores the objects of a file, of which each document is one.
func (f *fakeAPI) putFile(file string) {
	f.t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		f.t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &u.Object); err != nil {
			f.t.Fatal(err)
		}
		f.putAnywhere(u)
	}
}

// putAnywhere stores an object in its namespace. The other tests have one namespace.
func (f *fakeAPI) putAnywhere(u *unstructured.Unstructured) {
	f.t.Helper()
	for _, k := range kinds {
		if k.name != u.GetKind() {
			continue
		}
		path := k.collection()
		if k.namespaced {
			path = strings.Replace(path, "/namespaces/default/", "/namespaces/"+u.GetNamespace()+"/", 1)
		}
		f.mu.Lock()
		f.store(path+"/"+u.GetName(), u)
		f.mu.Unlock()
		return
	}
	f.t.Fatalf("there is no kind %q", u.GetKind())
}

// TestRoutes shows the objects of testdata/routes/NAME.in.yaml as NAME.out.txt, for each command line that its
// first comment has.
func TestRoutes(t *testing.T) {
	files, err := filepath.Glob("testdata/routes/*.in.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("there are %d cases: %v", len(files), err)
	}
	for _, file := range files {
		base := strings.TrimSuffix(file, ".in.yaml")
		t.Run(filepath.Base(base), func(t *testing.T) {
			f := newFakeAPI(t)
			f.putFile(file)
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			// It need not be installed where nothing is of it.
			if !strings.Contains(string(content), gatewayv1.GroupName) {
				f.missing = gatewayv1.GroupName
			}
			var out strings.Builder
			for line := range strings.Lines(string(content)) {
				command, is := strings.CutPrefix(strings.TrimSpace(line), "# kubectl ids ")
				if !is {
					continue
				}
				text, err := f.ids(strings.Fields(command)...)
				fmt.Fprintf(&out, "$ kubectl ids %s\n%s", command, text)
				if err != nil {
					fmt.Fprintf(&out, "Error: %v\n", err)
				}
			}
			golden.Equal(t, *update, base+".out.txt", out.String())
		})
	}
}

// TestRoutesOfNobody: where there are no routes that is said, and is no error; but a request is not served.
func TestRoutesOfNobody(t *testing.T) {
	f := newFakeAPI(t)
	if out, err := f.ids("routes", "-A"); err != nil || out != "" {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := f.ids("routes", "-A", "-o", "json"); err != nil || !strings.Contains(out, `"rules": []`) {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := f.ids("routes", "shop.example.com", "/")
	if err == nil || err.Error() != "no rule serves it" || !strings.Contains(out, "nothing serves any request") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestRoutesOfHostileNames: what objects hold steers no terminal, and breaks no line.
func TestRoutesOfHostileNames(t *testing.T) {
	const hostile = "\x1b[2J\nall is well\t\u202e"
	f := newFakeAPI(t)
	f.putFile("testdata/routes/cheeses.in.yaml")
	class, prefix := "proxy", networkingv1.PathTypePrefix
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: hostile, Port: networkingv1.ServiceBackendPort{Name: hostile}}}
	odd := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: hostile, Name: hostile}, Spec: networkingv1.IngressSpec{
		IngressClassName: &class, DefaultBackend: &backend, TLS: []networkingv1.IngressTLS{{SecretName: hostile}},
		Rules: []networkingv1.IngressRule{{Host: hostile, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{Path: "/" + hostile, PathType: &prefix, Backend: backend}}}}}},
	}}
	read, err := readRouting(t.Context(), f.client(t))
	if err != nil {
		t.Fatal(err)
	}
	r := compileRouting(append(read, odd), time.Now())
	answer, err := r.answer(table.Asked{Host: "shop.example.com", Target: "/"})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"list": r.list("").text(), "answer": answer.text()} {
		if strings.ContainsAny(text, "\x1b\t\u202e") || strings.Contains(text, "\nall is") || !strings.Contains(text, "all is well") {
			t.Errorf("%s:\n%q", name, text)
		}
	}
}

// client is one of the API as the commands have it.
func (f *fakeAPI) client(t *testing.T) client.WithWatch {
	t.Helper()
	o := operator{flags: genericclioptions.NewConfigFlags(false)}
	nowhere := os.DevNull
	o.flags.APIServer, o.flags.KubeConfig = &f.url, &nowhere
	api, _, err := o.connect()
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// TestNoneReady: which endpoints get requests where none is ready.
func TestNoneReady(t *testing.T) {
	for want, share := range map[string]listing.Share{
		"": {Ready: 1, Terminating: 1, Unknown: 1},
		"only 2 may serve, of whose nodes nothing is heard":                 {Unknown: 2},
		"only 2 may serve, of whose nodes nothing is heard; terminating: 1": {Unknown: 2, Terminating: 1},
		"only 3 that terminate serve":                                       {Terminating: 3},
		"answers 503, it has no endpoints":                                  {Status: 503},
	} {
		share.Backend = "shop/cheese:80"
		rows := withShares(nil, listing.Rule{Backends: []listing.Share{share}})
		if got := rows[0][3]; got != want {
			t.Errorf("%+v: %q, want %q", share, got, want)
		}
	}
}
