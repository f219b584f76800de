package kubectl

import "testing"

// FuzzManifests reads any file of a plan: the IngressDaemonSet of the name, or an error.
func FuzzManifests(f *testing.F) {
	for _, content := range []string{
		"", "---\n---\n", "kind: IngressDaemonSet\nmetadata: {name: proxy}\n", "kind: [", "- a\n", "7", "null",
		"kind: Service\nmetadata: {name: proxy}\n---\nkind: IngressDaemonSet\nmetadata: {name: proxy}\nspec: {podsPerNode: 2}\n",
		"kind: IngressDaemonSet\nmetadata: {name: proxy}\nspec: {podsPerNode: many}\n", "a: &a [*a]\n", "kind: IngressDaemonSet\nmetadata: {name: proxy}\nspek: {}\n",
	} {
		f.Add([]byte(content))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		set, err := fromManifests(content, "proxy")
		if err == nil && (set == nil || set.Name != "proxy") {
			t.Errorf("%q is read as %+v", content, set)
		}
	})
}
