package images

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

const (
	passwd = `root:x:0:0:root:/root:/sbin/nologin
www-data:x:33:33:www-data:/var/www:/sbin/nologin
nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin
`
	group = `root:x:0:
www-data:x:33:
nonroot:x:65532:
nogroup:x:65534:
`
	searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

	anyoneWrites = 0o1777
)

// baseTree has the users, and folders that any of them may write to.
func baseTree() tree {
	t := tree{}
	t.text("/etc/passwd", passwd)
	t.text("/etc/group", group)
	t.folder("/tmp", anyoneWrites)
	t.folder("/run", anyoneWrites)
	return t
}

// addDynamic adds a program of this machine at its own path, with the shared
// libraries that it loads.
func (t tree) addDynamic(ctx context.Context, program string) error {
	libraries, err := librariesOf(ctx, program)
	if err != nil {
		return err
	}
	for _, file := range append(libraries, program) {
		t.program(file, file)
	}
	return nil
}

// librariesOf asks the dynamic loader. Its lines read "name => path (address)", or
// "path (address)" for the loader itself.
func librariesOf(ctx context.Context, program string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "ldd", program).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("libraries of %s: %w: %s", program, err, out)
	}
	if strings.Contains(string(out), "not found") {
		return nil, fmt.Errorf("libraries of %s: %s", program, out)
	}
	var files []string
	for line := range strings.Lines(string(out)) {
		for _, field := range strings.Fields(line) {
			if strings.HasPrefix(field, "/") {
				files = append(files, field)
			}
		}
	}
	return files, nil
}

// addStatic builds a program of this module and adds it.
func (t tree) addStatic(ctx context.Context, path, pkg, buildDir string) error {
	file := buildDir + path
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file, pkg)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w: %s", pkg, err, out)
	}
	t.program(path, file)
	return nil
}
