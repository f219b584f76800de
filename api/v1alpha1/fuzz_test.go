package v1alpha1

import (
	"strings"
	"testing"
	"time"
)

// FuzzMark reads any mark under any key: its presence counts, and a time is read of it only
// where it begins with one of between 1970 and the year 9000.
func FuzzMark(f *testing.F) {
	f.Add(DefaultMarkKey, "2026-01-02T03:04:05Z/abc/serving", "")
	f.Add("example.com/updating", "", "example.com/updating")
	f.Add("", "2026-01-02T03:04:05+25:00/", AnnotationMarkKey)
	f.Add(AnnotationMarkKey, "/out-of-turn", "")
	f.Fuzz(func(t *testing.T, key, mark, recorded string) {
		annotations := map[string]string{key: mark}
		if recorded != "" {
			annotations[AnnotationMarkKey] = recorded
		}
		value, present := MarkOf(annotations, key)
		if there, ok := annotations[MarkKeyOf(annotations, key)]; ok != present || Mark(there) != value {
			t.Errorf("%v: the mark is %q, %t", annotations, value, present)
		}
		if recorded == key && key != AnnotationMarkKey && key != "" && !present {
			t.Errorf("%v: it is not there", annotations)
		}
		began, _, _ := strings.Cut(mark, "/")
		at, ok := Mark(mark).At()
		read, err := time.Parse(time.RFC3339, began)
		if fits := err == nil && read.Unix() >= 0 && read.UTC().Year() <= 9000; ok != fits || !ok && !at.IsZero() {
			t.Errorf("%q began at %s, %t", mark, at, ok)
		}
	})
}
