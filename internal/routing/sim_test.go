package routing

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// TestAsFresh lets random objects come, change and go. What the compiler holds afterwards, and what its
// changes add up to, is what a fresh one makes of the objects and of what was remembered.
func TestAsFresh(t *testing.T) {
	secrets := manySecrets(t)
	rapid.Check(t, func(t *rapid.T) {
		w := &world{model: newModel(Options{GatewayAddresses: fewAddresses}), objects: map[Ref]metav1.Object{}, proxies: map[types.NamespacedName]map[ResourceName]wire.Resource{}}
		for range 200 {
			w.happen(t, secrets)
			if rapid.IntRange(0, 3).Draw(t, "compile") == 0 {
				w.compileNow(t)
			}
		}
		w.compileNow(t)
		fresh := newModel(Options{GatewayAddresses: fewAddresses})
		for n, s := range w.Compiler.secrets {
			if s.good != nil {
				fresh.Compiler.secrets[n] = &secret{good: s.good, leaf: s.leaf}
			}
		}
		for _, ref := range slices.SortedFunc(maps.Keys(w.objects), compareRefs) {
			fresh.set(w.objects[ref])
		}
		for n := range w.unread {
			fresh.refuse(n)
		}
		fresh.compile(noon)
		if diff := cmp.Diff(asText(t, fresh.Compiler), asText(t, w.Compiler)); diff != "" {
			t.Fatalf("the compiler is not as a fresh one (-fresh +compiler):\n%s", diff)
		}
		if told := slices.SortedFunc(maps.Values(w.statuses), func(a, b Status) int { return compareRefs(a.Object, b.Object) }); !sameText(t, told, statusesOf(w.Compiler)) {
			t.Fatalf("statuses to be written were told as %v", told)
		}
		for _, set := range w.IngressDaemonSets() {
			for _, r := range w.Resources(set) {
				by, is := OriginOf(wire.NameOf(r))
				if !is || r.Route != nil && by != refTo(r.Route.Object) || r.Listener != nil && by != refTo(r.Listener.Object) {
					t.Fatalf("by its name %s comes from %s", wire.NameOf(r), by)
				}
			}
			if told := sorted(w.proxies[set]); !sameText(t, told, w.Resources(set)) {
				t.Fatalf("the proxies of %s were told %v, and are to know %v", set, names(told), names(w.Resources(set)))
			}
		}
	})
}

// world is the objects that there are, and what proxies were told.
type world struct {
	*model
	objects map[Ref]metav1.Object
	proxies map[types.NamespacedName]map[ResourceName]wire.Resource
}

func (w *world) compileNow(t *rapid.T) {
	r := w.compile(noon)
	for _, change := range r.Changes {
		told := w.proxies[change.IngressDaemonSet]
		if told == nil {
			told = map[ResourceName]wire.Resource{}
			w.proxies[change.IngressDaemonSet] = told
		}
		for _, resource := range change.Changed {
			told[ResourceName{resource.Kind(), resource.Name}] = resource
		}
		for _, name := range change.Removed {
			if _, known := told[name]; !known {
				t.Fatalf("%v is removed, and was never told", name)
			}
			delete(told, name)
		}
	}
}

// happen lets one thing happen.
func (w *world) happen(t *rapid.T, secrets []metav1.Object) {
	object := anObject(t, secrets)
	ref := RefOf(object)
	if ref.Kind == "Secret" && rapid.IntRange(0, 3).Draw(t, "unread") == 0 {
		w.refuse(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
		return
	}
	if rapid.IntRange(0, 3).Draw(t, "goes") == 0 {
		w.delete(ref)
		delete(w.objects, ref)
		return
	}
	if before := w.objects[ref]; before == nil || !Alike(before, object) {
		w.set(object)
	}
	w.objects[ref] = object
}

func sorted(told map[ResourceName]wire.Resource) []wire.Resource {
	all := slices.Collect(maps.Values(told))
	sortResources(all)
	return all
}

func sameText(t *rapid.T, a, b any) bool { return jsonText(t, a) == jsonText(t, b) }

func jsonText(t *rapid.T, v any) string {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// asText is all that a compiler holds.
func asText(t *rapid.T, c *Compiler) string {
	out := fmt.Sprintln("wanted", c.WantedSecrets())
	for _, set := range c.IngressDaemonSets() {
		out += set.String() + " " + jsonText(t, c.Resources(set)) + "\n"
	}
	return out + jsonText(t, c.Warnings()) + jsonText(t, statusesOf(c))
}

// statusesOf are all that are to be written.
func statusesOf(c *Compiler) (out []Status) {
	for _, s := range c.statuses {
		out = append(out, *s)
	}
	sortStatuses(out)
	return out
}
