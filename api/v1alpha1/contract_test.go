package v1alpha1_test

import (
	"slices"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// TestMarkOf reads the mark under the key on record, else under the default one, else
// under one that is known; an empty mark is one.
func TestMarkOf(t *testing.T) {
	const recorded = v1alpha1.AnnotationMarkKey
	for name, c := range map[string]struct {
		annotations map[string]string
		value       v1alpha1.Mark
		present     bool
	}{
		"none":            {nil, "", false},
		"default":         {map[string]string{v1alpha1.DefaultMarkKey: "a"}, "a", true},
		"empty":           {map[string]string{v1alpha1.DefaultMarkKey: ""}, "", true},
		"recorded":        {map[string]string{recorded: "k", "k": "b", v1alpha1.DefaultMarkKey: "a"}, "b", true},
		"recorded, empty": {map[string]string{recorded: "k", "k": ""}, "", true},
		"only a record":   {map[string]string{recorded: "k", v1alpha1.DefaultMarkKey: "a"}, "", false},
		"a known key":     {map[string]string{"known": "c"}, "c", true},
		"a known record":  {map[string]string{recorded: "k", "known": "c"}, "", false},
		"an empty record": {map[string]string{recorded: "", v1alpha1.DefaultMarkKey: "a"}, "a", true},
	} {
		if value, present := v1alpha1.MarkOf(c.annotations, "", "known"); value != c.value || present != c.present {
			t.Errorf("%s: %q, %t", name, value, present)
		}
	}
}

// TestHoldOf reads no hold where the value is empty, or somebody else's.
func TestHoldOf(t *testing.T) {
	for value, held := range map[string]bool{
		"": false, "{": false, "by me": false, `{"attempts": "two"}`: false, "null": false, "{}": false, `{"attempts": 2}`: false, `{"revision": "r"}`: true,
	} {
		if hold := v1alpha1.HoldOf(map[string]string{v1alpha1.AnnotationHold: value}); (hold != nil) != held {
			t.Errorf("%q is read as %+v", value, hold)
		}
	}
	if hold := v1alpha1.HoldOf(nil); hold != nil {
		t.Errorf("no annotation is read as %+v", hold)
	}
}

// TestDetachmentRequestOf counts presence, and takes of a value what can be read.
func TestDetachmentRequestOf(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	key := v1alpha1.DetachmentRequestKey("1")
	for value, want := range map[string]v1alpha1.DetachmentRequest{
		"": {}, "{": {}, "null": {}, "by me": {}, `{"key": "k", "at": 7}`: {Key: "k"},
		`{"at": "2026-01-02T03:04:05Z", "key": "k", "staleTimestamp": "s"}`: {At: at, Key: "k", StaleTimestamp: "s"},
	} {
		got := v1alpha1.DetachmentRequestOf(map[string]string{key: value}, "1")
		if got == nil || *got != want {
			t.Errorf("%q is read as %+v", value, got)
		}
	}
	if got := v1alpha1.DetachmentRequestOf(map[string]string{v1alpha1.DetachmentRequestKey("2"): ""}, "1"); got != nil {
		t.Errorf("another's is read as %+v", got)
	}
	local := v1alpha1.DetachmentRequest{At: at.In(time.FixedZone("", 3600)), Key: "k"}
	if got := local.Value(); got != `{"at":"2026-01-02T03:04:05Z","key":"k"}` {
		t.Errorf("written is %s", got)
	}
	if uid, ok := v1alpha1.DetachmentRequester(key); uid != "1" || !ok {
		t.Errorf("%s is %s's request, %t", key, uid, ok)
	}
	if _, ok := v1alpha1.DetachmentRequester(v1alpha1.AnnotationNodeDetached); ok {
		t.Error("a person's is a request")
	}
}

// TestMarkIs of a kind only where it is the controller's.
func TestMarkIs(t *testing.T) {
	const serving, outOfTurn = v1alpha1.MarkServing, v1alpha1.MarkOutOfTurn
	for mark, kind := range map[v1alpha1.Mark]string{
		"2026-01-02T03:04:05Z/r": "", "2026-01-02T03:04:05Z/r/serving": serving, "2026-01-02T03:04:05.678Z/r/out-of-turn": outOfTurn,
		"": "", "/serving": "", "/out-of-turn": "", "mine/serving": "", "mine/out-of-turn": "", "2026-01-02/serving": "",
		"0001-01-01T00:00:00Z/r/serving": "", "1969-12-31T23:59:59Z/r/serving": "", "9999-12-31T23:59:59Z/r/serving": "",
	} {
		if mark.Is(serving) != (kind == serving) || mark.Is(outOfTurn) != (kind == outOfTurn) {
			t.Errorf("%q is not of the kind %q", mark, kind)
		}
	}
}

// TestMoment reads no time that was never written, nor one after which a moment could not be read again.
func TestMoment(t *testing.T) {
	for value, read := range map[string]bool{
		"2026-01-02T03:04:05Z": true, "2026-01-02T03:04:05.678+09:00": true, "1970-01-01T00:00:00Z": true,
		"": false, "now": false, "0001-01-01T00:00:00Z": false, "1969-12-31T23:59:59Z": false, "9999-12-31T23:59:59.999Z": false,
	} {
		if got := v1alpha1.Moment(map[string]string{"at": value}, "at"); got.IsZero() == read {
			t.Errorf("%q is read as %s", value, got)
		}
	}
}

// TestPodsPerNode reads no number where there is none, or less than none.
func TestPodsPerNode(t *testing.T) {
	for value, want := range map[string]int32{"0": 0, "2": 2, "": -1, "-1": -1, "two": -1, "3000000000": -1, " 2": -1} {
		got, ok := v1alpha1.PodsPerNode(map[string]string{v1alpha1.AnnotationPodsPerNode: value})
		if ok != (want >= 0) || got != max(want, 0) {
			t.Errorf("%q is read as %d, %t", value, got, ok)
		}
	}
	if _, ok := v1alpha1.PodsPerNode(nil); ok {
		t.Error("no annotation is read")
	}
}

// TestReleasedPorts are read as they are written, and as people write them.
func TestReleasedPorts(t *testing.T) {
	for value, want := range map[string][]int32{
		"": nil, "10080": {10080}, "10081, 10080,": {10080, 10081}, "10080,10080": {10080}, "all,10080": {10080}, "4294967296": nil,
	} {
		set := &v1alpha1.IngressDaemonSet{}
		got := v1alpha1.ReleasedPorts(map[string]string{v1alpha1.AnnotationReleasedPorts: value})
		v1alpha1.SetReleasedPorts(set, got)
		if again := v1alpha1.ReleasedPorts(set.Annotations); !slices.Equal(got, want) || !slices.Equal(again, want) {
			t.Errorf("%q is read as %v, and after it was written as %v", value, got, again)
		}
		if v1alpha1.SetReleasedPorts(set, nil); len(set.Annotations) > 0 {
			t.Errorf("%q: without a port there is %v", value, set.Annotations)
		}
	}
}

// TestPresence of who drains or detaches a node counts, whatever the value says.
func TestPresence(t *testing.T) {
	for _, value := range []string{"", "{", "yes"} {
		annotations := map[string]string{v1alpha1.AnnotationDrainedAt: value, v1alpha1.AnnotationDetached: value}
		if at, drained := v1alpha1.DrainedAt(annotations); !drained || !at.IsZero() || !v1alpha1.IsDetached(annotations) {
			t.Errorf("%q: drained at %s, %t, detached %t", value, at, drained, v1alpha1.IsDetached(annotations))
		}
	}
	if _, drained := v1alpha1.DrainedAt(nil); drained || v1alpha1.IsDetached(nil) {
		t.Error("no annotation is read")
	}
}
