package peers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// packages are those of Debian which the peers come in.
var packages = []string{"curl", "nghttp2-client", "testssl.sh", "wrk"}

// peers are the folder into which these are unpacked.
type peers struct{ folder string }

// unpacked has the packages unpacked in the user's cache, with what they need and this machine lacks. Nothing is
// installed, which would need root and would stay.
func unpacked(t *testing.T) peers {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	key := sha256.Sum256([]byte(strings.Join(packages, " ")))
	p := peers{filepath.Join(cache, "ingress-daemonset-controller", fmt.Sprintf("peers-%x", key[:6]))}
	if _, err := os.Stat(p.folder); err == nil {
		return p
	}
	if err := os.MkdirAll(filepath.Dir(p.folder), 0o755); err != nil {
		t.Fatal(err)
	}
	work, err := os.MkdirTemp(filepath.Dir(p.folder), "peers-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(work)
	if err := unpack(t.Context(), work); err != nil {
		t.Fatalf("unpacking %v, which needs Debian and its archive: %v", packages, err)
	}
	// Another test may have been faster.
	if err := os.Rename(filepath.Join(work, "root"), p.folder); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	return p
}

// unpack downloads the packages and unpacks them in the folder root of this one. Where the machine's lists of Debian's
// archive are too old or there are none, they are downloaded first, which needs root.
func unpack(ctx context.Context, work string) error {
	if err := os.Mkdir(filepath.Join(work, "root"), 0o755); err != nil {
		return err
	}
	if err := download(ctx, work); err != nil {
		if _, err := output(ctx, work, "apt-get", "update"); err != nil {
			return err
		}
		if err := download(ctx, work); err != nil {
			return err
		}
	}
	archives, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil {
		return err
	}
	for _, archive := range archives {
		if _, err := output(ctx, work, "dpkg-deb", "--extract", archive, "root"); err != nil {
			return err
		}
	}
	return nil
}

// download downloads the packages, and those that apt would install or upgrade with them.
func download(ctx context.Context, work string) error {
	plan, err := output(ctx, work, "apt-get", append([]string{"-o", "Debug::NoLocking=1", "--simulate", "--no-install-recommends", "install"}, packages...)...)
	if err != nil {
		return err
	}
	arguments := []string{"-o", "APT::Sandbox::User=", "download"}
	for line := range strings.Lines(plan) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "Inst" {
			arguments = append(arguments, words[1])
		}
	}
	_, err = output(ctx, work, "apt-get", arguments...)
	return err
}

func output(ctx context.Context, dir, name string, arguments ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, &stderr)
	}
	return string(out), nil
}

// run has one of the peers, of which this machine may have some installed, do something within a time.
func (p peers) run(t *testing.T, within time.Duration, name string, arguments ...string) (said string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, "env", append([]string{name}, arguments...)...)
	libraries, err := filepath.Glob(filepath.Join(p.folder, "usr", "lib", "*-linux-gnu*"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(),
		"PATH="+filepath.Join(p.folder, "usr", "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"),
		"LD_LIBRARY_PATH="+strings.Join(libraries, string(filepath.ListSeparator)),
		"TESTSSL_INSTALL_DIR="+filepath.Join(p.folder, "etc", "testssl"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}
