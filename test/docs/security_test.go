package docs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// grants are what roles permit, each as "VERB RESOURCE", by the names of the roles.
type grants map[string][]string

func (g grants) add(role string, resources, verbs []string) {
	for _, resource := range resources {
		for _, verb := range verbs {
			g[role] = append(g[role], verb+" "+resource)
		}
	}
}

func (g grants) sorted() grants {
	for role := range g {
		slices.Sort(g[role])
	}
	return g
}

// TestSecurity holds the tables of rights against the roles, one by one.
func TestSecurity(t *testing.T) {
	if diff := cmp.Diff(granted(t).sorted(), told(read(t, "docs/concepts/security.md")).sorted()); diff != "" {
		t.Errorf("(-config +docs/concepts/security.md)\n%s", diff)
	}
}

// granted are the roles of config/.
func granted(t *testing.T) grants {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "config", "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	out := grants{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
			// A Role has the same form.
			var role rbacv1.ClusterRole
			if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if role.Kind != "ClusterRole" && role.Kind != "Role" {
				continue
			}
			for _, rule := range role.Rules {
				out.add(role.Name, resourcesOf(rule), rule.Verbs)
			}
		}
	}
	return out
}

// resourcesOf are the resources of a rule, as RESOURCE.GROUP where the group is neither ours
// nor Kubernetes' core.
func resourcesOf(rule rbacv1.PolicyRule) (out []string) {
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			if group != "" && group != v1alpha1.GroupVersion.Group {
				resource += "." + group
			}
			if len(rule.ResourceNames) > 0 {
				resource += " named " + strings.Join(rule.ResourceNames, ", ")
			}
			out = append(out, resource)
		}
	}
	return out
}

var (
	roleHeader = regexp.MustCompile("^\\| (?:Cluster)?Role `([^`]+)` \\| verbs \\|")
	named      = regexp.MustCompile("` named `")
)

// told are the rights of a page's tables. A table is of the role in its header, or has the
// role in its first column, where nothing stands for the one above.
func told(page string) grants {
	out, role, column := grants{}, "", 0
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch header := roleHeader.FindStringSubmatch(line); {
		case header != nil:
			role, column = header[1], 0
		case strings.HasPrefix(line, "| role | on | verbs |"):
			role, column = "", 1
		case !strings.HasPrefix(line, "|"):
			role, column = "", -1
		case column < 0 || len(cells) < column+2 || strings.HasPrefix(line, "| ---"):
		default:
			if column == 1 && strings.TrimSpace(cells[0]) != "" {
				role = strings.Trim(cells[0], " `")
			}
			out.add(role, spans(cells[column]), strings.Split(strings.Join(spans(cells[column+1]), ", "), ", "))
		}
	}
	return out
}

// spans are the pieces of code of a cell. A resource and its name are one.
func spans(cell string) (out []string) {
	for _, found := range code.FindAllString(named.ReplaceAllString(cell, " named "), -1) {
		out = append(out, strings.Trim(found, "`"))
	}
	return out
}
