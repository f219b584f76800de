package v1alpha1

import (
	"strings"
	"time"
)

// Mark is the value of a health-check mark, which has the health checks of its node fail: when
// it was asked for, for which revision, and its kind, MarkServing, MarkOutOfTurn or none.
// Health checkers acknowledge it by repeating it. One that does not begin with a time, or has
// no value, is somebody else's, of no kind: the health checks fail for as long as it is there.
type Mark string

// NewMark is a mark of a kind, empty for one that fails at once.
func NewMark(at time.Time, revision, kind string) Mark {
	return Mark(Timestamp(at) + "/" + revision + kind)
}

// MarkOf is the health-check mark among the annotations of a node's Deployment. Its
// presence counts, also where its value is empty.
func MarkOf(annotations map[string]string, known ...string) (mark Mark, present bool) {
	value, present := annotations[MarkKeyOf(annotations, known...)]
	return Mark(value), present
}

// MarkKeyOf is the key under which the health-check mark is looked for among the
// annotations of a node's Deployment: the one on record there, whatever the spec says.
// Somebody may have removed that record: then it is the default one, or another that
// the mark is known to be under.
func MarkKeyOf(annotations map[string]string, known ...string) string {
	if key := annotations[AnnotationMarkKey]; key != "" {
		return key
	}
	for _, key := range append([]string{DefaultMarkKey}, known...) {
		if _, marked := annotations[key]; marked && key != "" {
			return key
		}
	}
	return DefaultMarkKey
}

// At is the time that the mark begins with; ok is false where it is none of the controller's.
func (m Mark) At() (at time.Time, ok bool) {
	began, _, _ := strings.Cut(string(m), "/")
	return moment(began)
}

// Is reports whether the mark is of a kind, MarkServing or MarkOutOfTurn.
func (m Mark) Is(kind string) bool {
	_, ours := m.At()
	return ours && strings.HasSuffix(string(m), kind)
}

// Without is the mark without its kind, if it is of that one.
func (m Mark) Without(kind string) Mark { return Mark(strings.TrimSuffix(string(m), kind)) }

// Timestamp is how moments are written into annotations: RFC 3339 with milliseconds.
func Timestamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// Moment is the time in an annotation, zero where there is none or none can be read.
func Moment(annotations map[string]string, key string) time.Time {
	at, _ := moment(annotations[key])
	return at
}

// moment reads a time of this world. Before 1970 it would be before what was never written, and a
// moment after one of the year 9999 could not be read again.
func moment(value string) (at time.Time, ok bool) {
	at, err := time.Parse(time.RFC3339, value)
	if err != nil || at.Unix() < 0 || at.UTC().Year() > 9000 {
		return time.Time{}, false
	}
	return at, true
}
