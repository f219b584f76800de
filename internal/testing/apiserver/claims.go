package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// claim says which fields somebody has written, by which operation.
type claim struct {
	holder
	fields map[string]bool
}

type holder struct {
	manager, subresource string
	applied              bool
}

func (h holder) operation() metav1.ManagedFieldsOperationType {
	if h.applied {
		return metav1.ManagedFieldsOperationApply
	}
	return metav1.ManagedFieldsOperationUpdate
}

// claim writes the claims where they can be read: who, how, and of what at the top.
func (e *stored) claim(claims []claim) {
	e.claims = held(claims)
	var entries []metav1.ManagedFieldsEntry
	for _, c := range e.claims {
		tops := map[string]bool{}
		for path := range c.fields {
			top, _, _ := strings.Cut(path, separator)
			tops[top] = true
		}
		var parts []string
		for _, top := range slices.Sorted(maps.Keys(tops)) {
			parts = append(parts, fmt.Sprintf(`"f:%s":{}`, top))
		}
		entries = append(entries, metav1.ManagedFieldsEntry{
			Manager: c.manager, Operation: c.operation(), Subresource: c.subresource, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1("{" + strings.Join(parts, ",") + "}"),
		})
	}
	e.object.SetManagedFields(entries)
}

// held are the claims to anything.
func held(claims []claim) []claim {
	return slices.DeleteFunc(claims, func(c claim) bool { return len(c.fields) == 0 })
}

// take moves fields to a holder from all others that do not apply the same value, and
// those that are gone from everybody.
func take(claims []claim, to holder, set, gone map[string]bool) []claim {
	out, found := []claim{}, false
	for _, c := range claims {
		fields := maps.Clone(c.fields)
		for path := range gone {
			delete(fields, path)
		}
		if c.holder == to {
			found = true
			maps.Copy(fields, set)
		} else {
			for path := range set {
				delete(fields, path)
			}
		}
		out = append(out, claim{c.holder, fields})
	}
	if !found && len(set) > 0 {
		out = append(out, claim{to, maps.Clone(set)})
	}
	return out
}

// holderOf is where a claim of that holder stands.
func holderOf(claims []claim, h holder) int {
	return slices.IndexFunc(claims, func(c claim) bool { return c.holder == h })
}

// unclaimed is the highest place at or above a path where nobody claims anything, empty
// where the path itself is claimed.
func unclaimed(claims []claim, path string) string {
	highest := ""
	for !claimed(claims, path) {
		highest = path
		path = path[:max(strings.LastIndex(path, separator), 0)]
	}
	return highest
}

// claimed reports whether anybody claims what is at a path or below it, as whoever applies does
// the name.
func claimed(claims []claim, path string) bool {
	return path == "" || path == "metadata" || slices.ContainsFunc(claims, func(c claim) bool {
		for field := range c.fields {
			if field == path || strings.HasPrefix(field, path+separator) {
				return true
			}
		}
		return false
	})
}

// separator stands between the steps of a path; no name of a field has it.
const separator = "\x1f"

// leaves are the paths of a tree to all that is no map, lists as a whole.
func leaves(tree map[string]any) map[string]any {
	out := map[string]any{}
	var walk func(prefix string, m map[string]any)
	walk = func(prefix string, m map[string]any) {
		for key, value := range m {
			if inner, ok := value.(map[string]any); ok && len(inner) > 0 {
				walk(prefix+key+separator, inner)
				continue
			}
			out[prefix+key] = value
		}
	}
	walk("", tree)
	return out
}

// ownable is a tree without what belongs to the server.
func ownable(tree map[string]any) map[string]any {
	out := maps.Clone(tree)
	delete(out, "apiVersion")
	delete(out, "kind")
	delete(out, "status")
	if meta, ok := out["metadata"].(map[string]any); ok {
		kept := map[string]any{}
		for _, key := range []string{"labels", "annotations", "ownerReferences", "finalizers"} {
			if value, ok := meta[key]; ok {
				kept[key] = value
			}
		}
		out["metadata"] = kept
		if len(kept) == 0 {
			delete(out, "metadata")
		}
	}
	return out
}

// with is a tree with the values of another over its own; neither is changed.
func with(tree, over map[string]any) map[string]any {
	out := maps.Clone(tree)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range over {
		mine, isMap := out[key].(map[string]any)
		theirs, bothMaps := value.(map[string]any)
		if isMap && bothMaps {
			out[key] = with(mine, theirs)
			continue
		}
		out[key] = value
	}
	return out
}

// without is a tree without what is at a path.
func without(tree map[string]any, path string) map[string]any {
	first, rest, deeper := strings.Cut(path, separator)
	value, ok := tree[first]
	if !ok {
		return tree
	}
	out := maps.Clone(tree)
	inner, isMap := value.(map[string]any)
	if deeper && isMap {
		out[first] = without(inner, rest)
	} else if !deeper {
		delete(out, first)
	}
	return out
}

// tree is the content of an object.
func (e *stored) tree() (map[string]any, error) {
	if e.content != nil {
		return e.content, nil
	}
	content, err := treeOf(e.object)
	e.content = content
	return content, err
}

func treeOf(obj client.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return content, nil
}
