package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"sigs.k8s.io/yaml"
)

const root = "../.."

// pages are all Markdown files, by their path in the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out, err := Pages(root)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// divider stands between YAML documents.
var divider = regexp.MustCompile(`(?m)^---[ ]*$`)

// TestYAML reads every IngressDaemonSet of the documentation and of examples/ as
// strictly as the API server with field validation Strict, excerpts that begin
// with spec: included.
func TestYAML(t *testing.T) {
	sources := map[string][]string{}
	for name, page := range pages(t) {
		sources[name] = Blocks(page, "yaml", "yml")
	}
	examples, err := filepath.Glob(filepath.Join(root, "examples", "*.yaml"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range examples {
		name := "examples/" + filepath.Base(path)
		sources[name] = []string{read(t, name)}
	}
	count := 0
	for name, blocks := range sources {
		for _, block := range blocks {
			for _, document := range divider.Split(block, -1) {
				ours, err := readDocument(document)
				if err != nil {
					t.Errorf("%s: %v\n%s", name, err, document)
				}
				if ours {
					count++
				}
			}
		}
	}
	if count < len(examples) {
		t.Errorf("%d IngressDaemonSets were found, fewer than there are examples", count)
	}
}

// readDocument tells whether a YAML document is an IngressDaemonSet, and what is wrong with it.
func readDocument(document string) (ours bool, err error) {
	var any map[string]any
	if err := yaml.Unmarshal([]byte(document), &any); err != nil {
		return false, err
	}
	_, spec := any["spec"]
	excerpt := len(any) == 1 && spec
	if any["kind"] != v1alpha1.Kind.Kind && !excerpt {
		return false, nil
	}
	set := &v1alpha1.IngressDaemonSet{}
	if err := yaml.UnmarshalStrict([]byte(document), set); err != nil {
		return true, err
	}
	if !excerpt && (set.APIVersion != v1alpha1.GroupVersion.String() || set.Name == "" || len(set.Spec.Template.Spec.Containers) == 0) {
		return true, fmt.Errorf("it needs apiVersion %s, a name and a container", v1alpha1.GroupVersion)
	}
	return true, nil
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
)

// TestLinks resolves every relative link, its heading included.
func TestLinks(t *testing.T) {
	all := pages(t)
	for name, page := range all {
		for _, found := range link.FindAllStringSubmatch(prose(page), -1) {
			if err := resolve(all, name, found[1]); err != nil {
				t.Errorf("%s links to %s: %v", name, found[1], err)
			}
		}
	}
}

// prose is a page without its code.
func prose(page string) string {
	return code.ReplaceAllString(fence.ReplaceAllString(page, ""), "")
}

func resolve(all map[string]string, from, target string) error {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return nil
	}
	path, anchor, _ := strings.Cut(target, "#")
	to := from
	if path != "" {
		to = filepath.Join(filepath.Dir(from), path)
	}
	if _, err := os.Stat(filepath.Join(root, to)); err != nil {
		return err
	}
	if anchor == "" {
		return nil
	}
	for _, found := range heading.FindAllStringSubmatch(fence.ReplaceAllString(all[to], ""), -1) {
		if slug(found[1]) == anchor {
			return nil
		}
	}
	return fmt.Errorf("%s has no such heading", to)
}

// slug is how GitHub calls a heading.
func slug(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		}
		return -1
	}, strings.ToLower(text))
}

// constants are the exported string constants of a Go file whose names begin so.
func constants(t *testing.T, file, prefix string) []string {
	t.Helper()
	var out []string
	inspect(t, file, func(n ast.Node) {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) || !spec.Names[0].IsExported() || len(spec.Values) == 0 {
			return
		}
		if value, ok := text(spec.Values[0]); ok {
			out = append(out, value)
		}
	})
	return mustFind(t, file, out)
}

// mapValues are the strings that a map of a Go file maps to.
func mapValues(t *testing.T, file, name string) []string {
	t.Helper()
	var out []string
	inspect(t, file, func(n ast.Node) {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != name {
			return
		}
		for _, element := range spec.Values[0].(*ast.CompositeLit).Elts {
			if value, ok := text(element.(*ast.KeyValueExpr).Value); ok {
				out = append(out, value)
			}
		}
	})
	return mustFind(t, file, out)
}

func inspect(t *testing.T, file string, visit func(ast.Node)) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		visit(n)
		return true
	})
}

func text(e ast.Expr) (string, bool) {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(literal.Value)
	return value, err == nil
}

func mustFind(t *testing.T, file string, found []string) []string {
	t.Helper()
	if len(found) == 0 {
		t.Fatalf("%s holds none of the constants that are looked for", file)
	}
	return found
}

// TestTroubleshooting explains each reason of a condition and of an event.
func TestTroubleshooting(t *testing.T) {
	mentions(t, "docs/guides/troubleshooting.md", append(
		constants(t, "api/v1alpha1/status_types.go", "Reason"),
		slices.Concat(mapValues(t, "internal/rollout/controller/report.go", "reasons"), eventReasons(t, "internal/rollout/controller"),
			eventReasons(t, "internal/detach/controller"), announcedReasons(t),
			reasons(t, "internal/routing"), reasons(t, "internal/routing/controller"), reasons(t, "internal/routing/issuer"))...))
}

// reasons are the constants of a package that are reasons of events.
func reasons(t *testing.T, of string) (out []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, of, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		inspect(t, filepath.Join(of, filepath.Base(file)), func(n ast.Node) {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") || len(spec.Values) == 0 {
				return
			}
			if value, ok := text(spec.Values[0]); ok {
				out = append(out, value)
			}
		})
	}
	return mustFind(t, of, out)
}

// announcedReasons are those of the events of a node that comes to a phase of its detachment.
func announcedReasons(t *testing.T) (out []string) {
	t.Helper()
	const file = "internal/detach/controller/report.go"
	inspect(t, file, func(n ast.Node) {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != "announcements" {
			return
		}
		for _, element := range spec.Values[0].(*ast.CompositeLit).Elts {
			of := element.(*ast.KeyValueExpr).Value.(*ast.CompositeLit)
			if reason, ok := text(of.Elts[1]); ok {
				out = append(out, reason)
			}
		}
	})
	return mustFind(t, file, out)
}

// eventReasons are the reasons that a controller's events name in place.
func eventReasons(t *testing.T, controller string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, controller, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, file := range files {
		inspect(t, filepath.Join(controller, filepath.Base(file)), func(n ast.Node) {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 4 {
				return
			}
			if method, ok := call.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "Eventf" {
				if reason, ok := text(call.Args[3]); ok {
					out = append(out, reason)
				}
			}
		})
	}
	return mustFind(t, controller, out)
}

// TestHealthChecker explains each reason of an answer.
func TestHealthChecker(t *testing.T) {
	mentions(t, "docs/concepts/health-checker.md", constants(t, "internal/nodehealth/verdict.go", ""))
}

// TestNodeStates explains each state of a node.
func TestNodeStates(t *testing.T) {
	mentions(t, "docs/concepts/rollout.md", constants(t, "api/v1alpha1/status_types.go", "Node"))
}

func mentions(t *testing.T, page string, words []string) {
	t.Helper()
	content := read(t, page)
	for _, word := range words {
		if !strings.Contains(content, "`"+word+"`") {
			t.Errorf("%s does not mention `%s`", page, word)
		}
	}
}

// TestReference finds every field in the generated reference, in the place of its type.
func TestReference(t *testing.T) {
	reference := read(t, "docs/reference/api.md")
	for _, typ := range []reflect.Type{
		reflect.TypeFor[v1alpha1.IngressDaemonSetSpec](), reflect.TypeFor[v1alpha1.RollingUpdate](),
		reflect.TypeFor[v1alpha1.HealthChecker](), reflect.TypeFor[v1alpha1.IngressDaemonSetStatus](),
		reflect.TypeFor[v1alpha1.NodeStatus](), reflect.TypeFor[v1alpha1.HealthCheckAnswer](),
		reflect.TypeFor[v1alpha1.PortConnections](),
	} {
		for field := range typ.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !strings.Contains(reference, "\n| `"+name+"` |") {
				t.Errorf("docs/reference/api.md lacks %s of %s: run make generate", name, typ.Name())
			}
		}
	}
}

var makeCommand = regexp.MustCompile("(?m)(?:`|^|sudo )make ([a-z][a-z-]*)")

// TestMakeTargets finds every target that a page speaks of in the Makefile.
func TestMakeTargets(t *testing.T) {
	makefile := read(t, "Makefile")
	for name, page := range pages(t) {
		commands := strings.Join(append(Blocks(page, "sh", "console", "bash"), code.FindAllString(page, -1)...), "\n")
		for _, found := range makeCommand.FindAllStringSubmatch(commands, -1) {
			if !regexp.MustCompile(`(?m)^([a-z -]* )?` + found[1] + `( [a-z -]*)?:`).MatchString(makefile) {
				t.Errorf("%s speaks of make %s, which the Makefile does not have", name, found[1])
			}
		}
	}
}

// TestAnnotationsOfServices are all on the page that says how endpoints are used.
func TestAnnotationsOfServices(t *testing.T) {
	mentions(t, "docs/guides/proxies.md", append(constants(t, "internal/routing/policy.go", "Annotation"), constants(t, "internal/routing/weights.go", "Annotation")...))
}
