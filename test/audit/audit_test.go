package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

const line = `{"verb": %q, "user": {"username": %q}, "stage": %q, "requestURI": %q, "objectRef": {"apiGroup": %q, "resource": %q, "subresource": %q}, "responseStatus": {"code": %d}, "annotations": {"authorization.k8s.io/decision": %q}}`

func TestPermissions(t *testing.T) {
	entry := func(verb, user, stage, uri, group, resource, subresource string, code int, decision string) string {
		return fmt.Sprintf(line, verb, user, stage, uri, group, resource, subresource, code, decision)
	}
	log := strings.Join([]string{
		entry("patch", "me", "ResponseComplete", "", "apps", "deployments", "", 201, "allow"),
		entry("update", "me", "ResponseComplete", "", "apps", "deployments", "", 409, "allow"),
		entry("watch", "me", "ResponseStarted", "?sendInitialEvents=true", "", "pods", "", 200, "allow"),
		entry("watch", "me", "ResponseComplete", "?sendInitialEvents=true", "", "pods", "", 200, "allow"),
		entry("update", "me", "ResponseComplete", "", "x", "things", "status", 200, "allow"),
		entry("create", "me", "ResponseComplete", "", "", "events", "", 403, "forbid"),
		entry("create", "me", "ResponseComplete", "", "", "events", "", 403, "forbid"),
		// Refused before the API server had read the roles.
		entry("list", "me", "ResponseComplete", "", "", "configmaps", "", 403, "forbid"),
		entry("list", "me", "ResponseComplete", "", "", "configmaps", "", 200, "allow"),
		// Refused before, and then watched with what a list would have had.
		entry("list", "me", "ResponseComplete", "", "", "leases", "", 403, "forbid"),
		entry("watch", "me", "ResponseStarted", "/leases?sendInitialEvents=true", "", "leases", "", 200, "allow"),
		// Refused by admission, such as in a namespace that is going.
		entry("create", "me", "ResponseComplete", "", "", "secrets", "", 403, "allow"),
		entry("delete", "somebody", "ResponseComplete", "", "", "nodes", "", 200, "allow"),
		entry("get", "me", "ResponseComplete", "/healthz", "", "", "", 200, "allow"),
	}, "\n") + "\n" + `{"verb": "ge`
	file := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	events, err := Read(file, Account("me"))
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 11 || len(Writes(events)) != 2 {
		t.Errorf("%d requests, %d of them changed something", len(events), len(Writes(events)))
	}
	if got := Refused(events); !slices.Equal(got, []string{"create events"}) {
		t.Errorf("refused: %v", got)
	}
	if got := RefusedOnce(events); len(got) != 2 || !strings.HasSuffix(got[0], " list configmaps") || !strings.HasSuffix(got[1], " list leases") {
		t.Errorf("refused for a moment: %v", got)
	}
	if err := Check("somebody", events, false, nil); err == nil || err.Error() != "somebody may not:\ncreate events" {
		t.Errorf("checked: %v", err)
	}
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"create", "patch", "update", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"pods", "nodes"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"x"}, Resources: []string{"things", "things/status"}, Verbs: []string{"update"}},
		{APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"clusterroles"}, Verbs: []string{"bind"}},
	}
	if got, want := Unused(rules, events), []string{"delete apps/deployments", "list nodes", "watch nodes", "update x/things"}; !slices.Equal(got, want) {
		t.Errorf("unused: %v, want %v", got, want)
	}
	if err := os.WriteFile(file, []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file, Account("me")); err == nil {
		t.Error("nonsense is read")
	}
}

// TestCheck says nothing of permissions that were not used where not the whole was done: it takes all of it to
// use all of them.
func TestCheck(t *testing.T) {
	rules := func() ([]rbacv1.PolicyRule, error) {
		return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}}}, nil
	}
	for _, test := range []struct {
		whole bool
		but   []string
		say   string
	}{
		{true, nil, "it may, but never did:\nget pods\nlist pods"},
		{true, []string{"get pods"}, "it may, but never did:\nlist pods"},
		{true, []string{"get pods", "list pods"}, "<nil>"},
		{false, nil, "<nil>"},
	} {
		if got := fmt.Sprint(Check("it", nil, test.whole, rules, test.but...)); got != test.say {
			t.Errorf("the whole: %t, but for %v: %s, want %s", test.whole, test.but, got, test.say)
		}
	}
}
