package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/progress"
)

// modulePath is the module that this package, and the pinned modules in its
// folder tools, are part of.
const modulePath = "github.com/mumoshu/ingress-daemonset-controller"

// tool is a program that the cluster runs, built from a pinned module.
type tool struct {
	name    string
	module  string // folder below tools
	pkg     string
	version string // module whose version it has
	tags    string
	cold    string // how long the build takes with an empty cache on 2 cores
}

// The modules that pin Kubernetes: of the version that most is tested with, and of the oldest that is
// supported, which charts/ingress-daemonset-controller/Chart.yaml names.
const currentKubernetes, oldestKubernetes = "kubernetes", "kubernetes131"

func kubernetesTool(name, cold string) tool {
	return tool{name: name, module: currentKubernetes, pkg: "k8s.io/kubernetes/cmd/" + name, version: "k8s.io/kubernetes", cold: cold}
}

func containerdTool(name, cold string) tool {
	return tool{
		name: name, module: "containerd", pkg: "github.com/containerd/containerd/v2/cmd/" + name,
		version: "github.com/containerd/containerd/v2", tags: "no_btrfs no_devmapper no_zfs", cold: cold,
	}
}

var (
	controlPlaneTools = []tool{
		kubernetesTool("kube-apiserver", "3 min"),
		kubernetesTool("kube-controller-manager", "1 min"),
		kubernetesTool("kube-scheduler", "20 s"),
		kubernetesTool("kubectl", "20 s"),
		{name: "etcd", module: "etcd", pkg: "go.etcd.io/etcd/server/v3", version: "go.etcd.io/etcd/server/v3", cold: "20 s"},
	}
	nodeTools = []tool{
		kubernetesTool("kubelet", "20 s"),
		kubernetesTool("kube-proxy", "20 s"),
		containerdTool("containerd", "70 s"),
		containerdTool("containerd-shim-runc-v2", "5 s"),
		containerdTool("ctr", "10 s"),
	}
	simulationTools = []tool{
		{name: "kwok", module: "kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok", version: "sigs.k8s.io/kwok", cold: "3 min"},
	}
)

// ownPrograms are the programs of this module that run in the cluster.
var ownPrograms = []string{"machine/init", "registry", "pause"}

// binaries knows where the programs are.
type binaries struct {
	source  string // folder of this module
	folders []string
}

// path returns the file of a program. Every program asked for is one that was
// built.
func (b *binaries) path(name string) string {
	for _, folder := range b.folders {
		file := filepath.Join(folder, name)
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	return name
}

// searchPath is the value of PATH with which the programs find each other.
func (b *binaries) searchPath() string {
	folders := append(append([]string{}, b.folders...), "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
	return strings.Join(folders, string(filepath.ListSeparator))
}

// buildTools builds the tools that the user's cache does not hold yet.
func buildTools(ctx context.Context, tools []tool, log *progress.Log) (*binaries, error) {
	source, err := output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", modulePath)
	if err != nil {
		return nil, fmt.Errorf("find the source of %s (run inside its folder): %w", modulePath, err)
	}
	b := &binaries{source: source}
	for i, t := range tools {
		folder, err := t.folder(ctx, source)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(b.folders, folder) {
			b.folders = append(b.folders, folder)
		}
		place := fmt.Sprintf("%d/%d", i+1, len(tools))
		if err := t.build(ctx, source, folder, place, log); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// addOwn builds this module's own programs into dir.
func (b *binaries) addOwn(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", dir + string(filepath.Separator)}
	for _, program := range ownPrograms {
		args = append(args, modulePath+"/test/cluster/"+program)
	}
	_, err := output(ctx, b.source, "go", args...)
	b.folders = append(b.folders, dir)
	return err
}

// folder is where the tool belongs in the user's cache. It changes with
// everything that the tool is built from.
func (t tool) folder(ctx context.Context, root string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	compiler, err := output(ctx, root, "go", "env", "GOVERSION")
	if err != nil {
		return "", err
	}
	key := sha256.New()
	fmt.Fprintln(key, compiler, runtime.GOOS, runtime.GOARCH, t.tags)
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(root, "tools", t.module, name))
		if err != nil {
			return "", err
		}
		key.Write(content)
	}
	return filepath.Join(cache, "ingress-daemonset-controller", fmt.Sprintf("%s-%x", t.module, key.Sum(nil)[:6]), "bin"), nil
}

func (t tool) build(ctx context.Context, root, folder, place string, log *progress.Log) error {
	file := filepath.Join(folder, t.name)
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	unlock, err := lock(ctx, file+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(file); err == nil {
		return nil // built by another process while this one waited
	}
	source := filepath.Join(root, "tools", t.module)
	version, err := pinned(ctx, source, "list", "-m", "-f", "{{.Version}}", t.version)
	if err != nil {
		return err
	}
	defer log.Step("building %s %s (%s, about %s when nothing is cached)", t.name, version, place, t.cold).Done()
	args := []string{"build", "-trimpath", "-buildvcs=false", "-tags", t.tags, "-ldflags", t.linkerFlags(version), "-o", file + ".new", t.pkg}
	if _, err := pinned(ctx, source, args...); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// linkerFlags stamps Kubernetes' version, without which kubectl refuses to
// compare versions and nodes report v0.0.0-master.
func (t tool) linkerFlags(version string) string {
	flags := []string{"-s", "-w"}
	if t.module != currentKubernetes && t.module != oldestKubernetes {
		return strings.Join(flags, " ")
	}
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			"-X", pkg+".gitVersion="+version, "-X", pkg+".gitMajor="+major,
			"-X", pkg+".gitMinor="+minor, "-X", pkg+".gitTreeState=clean")
	}
	return strings.Join(flags, " ")
}

// output runs a command and returns its trimmed standard output. Its standard
// error is part of the error.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, lastLines(stderr.String(), 20))
	}
	return strings.TrimSpace(string(stdout)), nil
}

// pinned runs the go command in a module of tools/ that pins versions of its own, outside of the workspace.
func pinned(ctx context.Context, folder string, args ...string) (string, error) {
	return output(ctx, folder, "env", append([]string{"GOWORK=off", "go"}, args...)...)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// lock waits for an exclusive lock on a file.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			file.Close()
			return nil, err
		}
	}
}
