package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sigsyaml "sigs.k8s.io/yaml"
)

// before is the chart of the release before, made of commit dd2c808 with version 0.1.0 and
// appVersion v0.1.0, as make release makes them.
var before = filepath.Join("testdata", "v0.1.0.tgz")

// usual are values as users of the release before have them.
var usual = []string{
	"--set", "image.repository=registry.example/ids,image.tag=v1,imagePullSecrets[0]=registry,replicas=3,verbosity=1",
	"--set", "extraArgs[0]=--cloud=aws,loadBalancers.enabled=true,nodeSelector.role=infra,podAnnotations.team=ingress",
	"--set", "prometheusRule.enabled=true",
}

// TestSameAsReleaseBefore: with the values of the release before the chart has all of its objects, by
// the same names, and what runs is the same but for labels. What cannot be changed is not.
func TestSameAsReleaseBefore(t *testing.T) {
	was, is := objects(t, strings.NewReader(rendered(t, before, usual...))), objects(t, strings.NewReader(template(t, usual...)))
	for name, object := range was {
		now := is[name]
		if now == nil {
			t.Errorf("%s is not there any more", name)
			continue
		}
		// The rules of these are the version's.
		if kind, _, _ := strings.Cut(name, " "); slices.Contains([]string{"ClusterRole", "Role", "ValidatingAdmissionPolicy", "PrometheusRule"}, kind) {
			continue
		}
		label(t, object, "v1")
		if diff := cmp.Diff(object, now); diff != "" {
			t.Errorf("%s (-v0.1.0 +now)\n%s", name, diff)
		}
	}
}

// TestFieldsStay: all that could be written to objects of the release before can be written now. Every
// field is there with its type, none must be given that could be left out, and no value of a list of
// values is missing. Bounds may be narrower.
func TestFieldsStay(t *testing.T) {
	kept := unpack(t, before)
	kinds, err := filepath.Glob(filepath.Join(root, "config", "crd", "*s.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, file := range kinds {
		was, known := kept["ingress-daemonset-controller/crds/"+filepath.Base(file)]
		if !known {
			continue
		}
		compared++
		then, now := readCRD(t, was), readCRD(t, readFile(t, file))
		if diff := cmp.Diff(then.Spec.Names, now.Spec.Names); diff != "" || then.Spec.Scope != now.Spec.Scope {
			t.Errorf("%s is found by other names, or elsewhere: %s", filepath.Base(file), diff)
		}
		stay(t, now.Spec.Names["kind"].(string), then.version(t), now.version(t))
	}
	if compared != 3 {
		t.Errorf("%d CRDs were compared, not 3", compared)
	}
}

// crd is what of a CRD is compared.
type crd struct {
	Spec struct {
		Scope    string
		Names    map[string]any
		Versions []struct {
			Name            string
			Served, Storage bool
			Schema          struct{ OpenAPIV3Schema field }
		}
	}
}

// field is what of the schema of a field is compared.
type field struct {
	Type                 string
	IntOrString          bool `json:"x-kubernetes-int-or-string"`
	ListType             any  `json:"x-kubernetes-list-type"`
	Enum                 []any
	Required             []string
	Properties           map[string]field
	Items                *field
	AdditionalProperties *field
}

func readCRD(t *testing.T, content []byte) (c crd) {
	t.Helper()
	if err := sigsyaml.Unmarshal(content, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// version is v1alpha1, which is served and stored.
func (c crd) version(t *testing.T) field {
	t.Helper()
	for _, v := range c.Spec.Versions {
		if v.Name == "v1alpha1" && v.Served && v.Storage {
			return v.Schema.OpenAPIV3Schema
		}
	}
	t.Fatal("v1alpha1 is not served and stored")
	return field{}
}

// stay holds a field, and what is below it, to what it was.
func stay(t *testing.T, path string, was, is field) {
	t.Helper()
	widened := is.IntOrString && (was.Type == "integer" || was.Type == "string")
	if (was.Type != is.Type || was.IntOrString != is.IntOrString) && !widened {
		t.Errorf("%s was of type %q and is of type %q", path, was.Type, is.Type)
	}
	if was.ListType != is.ListType {
		t.Errorf("%s was a list of type %v and is one of type %v", path, was.ListType, is.ListType)
	}
	for _, name := range is.Required {
		if !slices.Contains(was.Required, name) {
			t.Errorf("%s.%s must be given", path, name)
		}
	}
	if len(was.Enum) == 0 && len(is.Enum) > 0 {
		t.Errorf("%s could have any value, and is one of %v", path, is.Enum)
	}
	for _, value := range was.Enum {
		if len(is.Enum) > 0 && !slices.Contains(is.Enum, value) {
			t.Errorf("%s cannot be %v any more", path, value)
		}
	}
	for name, below := range was.Properties {
		if now, found := is.Properties[name]; found {
			stay(t, path+"."+name, below, now)
		} else {
			t.Errorf("%s.%s is not there any more", path, name)
		}
	}
	each := []struct {
		suffix  string
		was, is *field
	}{{"[]", was.Items, is.Items}, {".*", was.AdditionalProperties, is.AdditionalProperties}}
	for _, e := range each {
		switch {
		case e.was != nil && e.is != nil:
			stay(t, path+e.suffix, *e.was, *e.is)
		case e.was != nil:
			t.Errorf("%s%s is not there any more", path, e.suffix)
		}
	}
}

// unpack gives the files of a packed chart by name.
func unpack(t *testing.T, chart string) map[string][]byte {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(readFile(t, chart)))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}
