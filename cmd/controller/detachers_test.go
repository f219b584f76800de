package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
)

func TestReadDetachers(t *testing.T) {
	got, err := readDetachers([]string{"a/ask=a/answer", "b", v1alpha1.AnnotationNodeDetached + "=c"})
	want := []rollout.Detacher{{Ask: "a/ask", Answer: "a/answer"}, {Ask: "b"}, {Ask: v1alpha1.AnnotationNodeDetached, Answer: "c"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for flag, says := range map[string]string{
		"a b":                                  `a b: "a b" is no key of an annotation`,
		"a=":                                   `a=: "" is no key of an annotation`,
		"=b":                                   `=b: "" is no key of an annotation`,
		"a=b=c":                                `"b=c" is no key of an annotation`,
		"a=b,b":                                "b both asks a detacher and is an answer",
		"a=b,b=c":                              "b both asks a detacher and is an answer",
		"a=a":                                  "a both asks a detacher and is an answer",
		"a=" + v1alpha1.AnnotationNodeDetached: v1alpha1.AnnotationNodeDetached + " both asks",
		v1alpha1.AnnotationDetachmentTimestamp: v1alpha1.AnnotationDetachmentTimestamp + " both asks",
	} {
		if _, err := readDetachers(strings.Split(flag, ",")); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", flag, err, says)
		}
	}
}
