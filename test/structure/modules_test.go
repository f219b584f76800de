package structure

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// goMod is what go mod edit -json tells of a module.
type goMod struct {
	Module  struct{ Path string }
	Require []requirement
}

type requirement struct {
	Path, Version string
	Indirect      bool
}

// workspace are the modules that go.work names, by their folders.
func workspace(t *testing.T) map[string]goMod {
	t.Helper()
	var work struct{ Use []struct{ DiskPath string } }
	goTells(t, "../..", &work, "work", "edit", "-json")
	out := map[string]goMod{}
	for _, use := range work.Use {
		var m goMod
		goTells(t, filepath.Join("..", "..", use.DiskPath), &m, "mod", "edit", "-json")
		out[use.DiskPath] = m
	}
	if len(out) < 2 {
		t.Fatalf("the workspace is %v", out)
	}
	return out
}

func goTells(t *testing.T, folder string, to any, arguments ...string) {
	t.Helper()
	cmd := exec.Command("go", arguments...)
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s in %s: %v", strings.Join(arguments, " "), folder, err)
	}
	if err := json.Unmarshal(out, to); err != nil {
		t.Fatal(err)
	}
}

// TestModulesNeedWhatTheyName has each module require directly what its own packages and their tests
// import, and no more: what only tests on clusters or a release need is no matter of who imports the
// product.
func TestModulesNeedWhatTheyName(t *testing.T) {
	modules := workspace(t)
	imported := map[string]map[string]bool{}
	for folder := range modules {
		imported[folder] = map[string]bool{}
	}
	for _, p := range packages(t) {
		folder := moduleOf(p)
		for _, imports := range [][]string{p.Imports, p.TestImports, p.XTestImports} {
			for _, path := range imports {
				if r, found := required(modules[folder], path); found {
					imported[folder][r.Path] = true
				}
			}
		}
	}
	for folder, m := range modules {
		for _, r := range m.Require {
			switch used := imported[folder][r.Path]; {
			case used && r.Indirect:
				t.Errorf("%s/go.mod calls %s indirect, which is imported: run go mod tidy there", folder, r.Path)
			case !used && !r.Indirect:
				t.Errorf("%s/go.mod requires %s, which nothing imports: run go mod tidy there", folder, r.Path)
			}
		}
	}
}

// moduleOf is the folder of the module that a package belongs to, as go.work names it.
func moduleOf(p goPackage) string {
	for _, folder := range []string{"test", "tools"} {
		if strings.HasPrefix(p.path(), folder+"/") {
			return "./" + folder
		}
	}
	return "."
}

// required is the requirement that provides a package: that with the longest path.
func required(m goMod, path string) (found requirement, ok bool) {
	for _, r := range m.Require {
		if (path == r.Path || strings.HasPrefix(path, r.Path+"/")) && len(r.Path) > len(found.Path) {
			found, ok = r, true
		}
	}
	return found, ok
}

// TestModulesAgree has the modules of the workspace require one version of each dependency: what is
// shipped is built from the product's go.mod alone, and tested with the newest version that any of them
// requires.
func TestModulesAgree(t *testing.T) {
	modules := workspace(t)
	for folder, m := range modules {
		for _, r := range m.Require {
			for other, o := range modules {
				for _, theirs := range o.Require {
					if r.Path == theirs.Path && r.Version < theirs.Version {
						t.Errorf("%s/go.mod requires %s %s, and %s/go.mod %s", folder, r.Path, r.Version, other, theirs.Version)
					}
				}
			}
		}
	}
}
