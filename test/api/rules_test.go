package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
)

// TestEveryRuleIsSeen fails for a rule that no case of refusals and warned has
// brought to speak.
func TestEveryRuleIsSeen(t *testing.T) {
	var refusals, warnings []string
	for _, a := range refused() {
		for _, c := range a.causes() {
			refusals = append(refusals, c.Field+": "+c.Message)
		}
	}
	for _, a := range warnedAnswers() {
		warnings = append(warnings, a.warnings...)
	}
	walk(schemaOfCRD(t), "", func(path string, s apiextensionsv1.JSONSchemaProps) {
		for _, rule := range s.XValidations {
			if !seen(refusals, path+": ", rule.Message) {
				t.Errorf("no refusal shows the rule of %s: %s", path, rule.Message)
			}
		}
	})
	for _, v := range policy(t, denyFile).Spec.Validations {
		if !seen(refusals, ": ", spoken(v)) {
			t.Errorf("no refusal shows %s", v.Expression)
		}
	}
	for _, v := range policy(t, warnFile).Spec.Validations {
		if !seen(warnings, "", spoken(v)) {
			t.Errorf("no warning shows %s", v.Expression)
		}
	}
}

func seen(texts []string, prefix, part string) bool {
	return part != "" && slices.ContainsFunc(texts, func(s string) bool {
		return strings.HasPrefix(s, prefix) && strings.Contains(s, part)
	})
}

var literal = regexp.MustCompile(`'[^']*'`)

// spoken is the message of a validation, or the longest part of it that does
// not depend on the object.
func spoken(v admissionv1.Validation) string {
	if v.Message != "" {
		return v.Message
	}
	var longest string
	for _, s := range literal.FindAllString(v.MessageExpression, -1) {
		if len(s) > len(longest) {
			longest = s
		}
	}
	return strings.Trim(longest, "'")
}

// walk visits a schema and its properties; the path of the root is what the
// API server calls it in messages.
func walk(s apiextensionsv1.JSONSchemaProps, path string, visit func(string, apiextensionsv1.JSONSchemaProps)) {
	if path == "" {
		visit("<nil>", s)
	} else {
		visit(path, s)
	}
	for name, property := range s.Properties {
		walk(property, strings.TrimPrefix(path+"."+name, "."), visit)
	}
}

// TestRulesSuitKubernetes131 compiles every expression with what CEL offers new
// objects in Kubernetes 1.31, which is what 1.30 knew.
func TestRulesSuitKubernetes131(t *testing.T) {
	base := environment.MustBaseEnvSet(version.MajorMinor(1, 30))
	env, err := base.NewExpressionsEnv().Extend(
		cel.Variable("self", cel.DynType), cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType),
		cel.Variable("request", cel.DynType), cel.Variable("variables", cel.DynType), cel.Variable("authorizer", library.AuthorizerType))
	if err != nil {
		t.Fatal(err)
	}
	for place, expression := range expressions(t) {
		if _, issues := env.Compile(expression); issues.Err() != nil {
			t.Errorf("%s: %v", place, issues.Err())
		}
	}
}

func expressions(t *testing.T) map[string]string {
	all := map[string]string{}
	for _, file := range []string{crdFile, targetGroupFile} {
		walk(schemaOf(t, file), "", func(path string, s apiextensionsv1.JSONSchemaProps) {
			for i, rule := range s.XValidations {
				all[fmt.Sprintf("%s %s[%d]", file, path, i)] = rule.Rule
			}
		})
	}
	for _, file := range policyFiles {
		p := policy(t, file)
		for _, c := range p.Spec.MatchConditions {
			all[p.Name+" condition "+c.Name] = c.Expression
		}
		for _, v := range p.Spec.Variables {
			all[p.Name+" variable "+v.Name] = v.Expression
		}
		for i, v := range p.Spec.Validations {
			all[fmt.Sprintf("%s[%d]", p.Name, i)] = v.Expression
			if v.MessageExpression != "" {
				all[fmt.Sprintf("%s[%d] message", p.Name, i)] = v.MessageExpression
			}
		}
	}
	return all
}

// TestPoliciesFitTheTypes has kube-controller-manager compare the expressions
// with the CRD's schema. It finds nothing until the API server has published
// that, so a wrong expression goes first.
func TestPoliciesFitTheTypes(t *testing.T) {
	wrong := policy(t, denyFile)
	wrong.Spec.Validations = []admissionv1.Validation{{Expression: "object.spec.podPerNode == 1"}}
	err := await.NoError(t.Context(), func() error {
		if len(typeWarnings(t, wrong)) == 0 {
			return errors.New("the types of expressions are not checked")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range policyFiles {
		for _, w := range typeWarnings(t, policy(t, file)) {
			t.Errorf("%s %s: %s", file, w.FieldRef, w.Warning)
		}
	}
}

// typeWarnings are those of a new policy, which nothing binds.
func typeWarnings(t *testing.T, p admissionv1.ValidatingAdmissionPolicy) []admissionv1.ExpressionWarning {
	t.Helper()
	policies := client.Resource(admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies"))
	p.ObjectMeta = metav1.ObjectMeta{GenerateName: "types-"}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p)
	if err != nil {
		t.Fatal(err)
	}
	object, err := policies.Create(t.Context(), &unstructured.Unstructured{Object: content}, createOptions)
	if err != nil {
		t.Fatal(err)
	}
	defer policies.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{})
	var checked admissionv1.ValidatingAdmissionPolicy
	err = await.NoError(t.Context(), func() error {
		object, err := policies.Get(t.Context(), object.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		convert(t, object, &checked)
		if checked.Status.TypeChecking == nil {
			return errors.New("kube-controller-manager does not answer")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return checked.Status.TypeChecking.ExpressionWarnings
}

// TestCRDFitsAnAnnotation keeps `kubectl apply` of the CRD possible, which
// stores it in an annotation; all annotations of an object have 256 KiB.
func TestCRDFitsAnAnnotation(t *testing.T) {
	data, err := json.Marshal(files(t, crdFile)[0])
	if err != nil {
		t.Fatal(err)
	}
	if limit := 200 << 10; len(data) > limit {
		t.Errorf("the CRD has %d bytes, more than %d", len(data), limit)
	}
}

func schemaOfCRD(t *testing.T) apiextensionsv1.JSONSchemaProps { return schemaOf(t, crdFile) }

func schemaOf(t *testing.T, file string) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	convert(t, files(t, file)[0], &crd)
	return *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

func policy(t *testing.T, file string) admissionv1.ValidatingAdmissionPolicy {
	var p admissionv1.ValidatingAdmissionPolicy
	convert(t, files(t, file)[0], &p)
	return p
}

func files(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	list, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func convert(t *testing.T, object *unstructured.Unstructured, into any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		t.Fatal(err)
	}
}
