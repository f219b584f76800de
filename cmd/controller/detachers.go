package main

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
)

// readDetachers reads the detachers of --detach-annotations, each the key of the annotation that
// asks, an equals sign and the key of its answer, or the first alone. A key that one detacher is
// asked by must be no other's answer: who may ask could say that a node is out that is not.
func readDetachers(entries []string) ([]rollout.Detacher, error) {
	asks, answers := []string{v1alpha1.AnnotationNodeDetached}, []string{v1alpha1.AnnotationDetachmentTimestamp}
	var detachers []rollout.Detacher
	for _, entry := range entries {
		ask, answer, paired := strings.Cut(entry, "=")
		keys := []string{ask}
		if paired {
			keys = append(keys, answer)
			answers = append(answers, answer)
		}
		for _, key := range keys {
			if wrong := validation.IsQualifiedName(key); len(wrong) > 0 {
				return nil, fmt.Errorf("%s: %q is no key of an annotation: %s", entry, key, wrong[0])
			}
		}
		asks = append(asks, ask)
		detachers = append(detachers, rollout.Detacher{Ask: ask, Answer: answer})
	}
	for _, key := range asks {
		if slices.Contains(answers, key) {
			return nil, fmt.Errorf("%s both asks a detacher and is an answer, so that whoever may ask could say that a node is out which is not: write each detacher as ASK=ANSWER, or ASK where nothing answers", key)
		}
	}
	return detachers, nil
}
