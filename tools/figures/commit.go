package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// extract writes the Go files of a commit to a folder.
func extract(repository, commit, to string) error {
	if strings.HasPrefix(commit, "-") {
		return fmt.Errorf("%q is no commit", commit)
	}
	cmd := exec.Command("git", "archive", "--format=tar", commit)
	cmd.Dir = repository
	var archive, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &archive, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("git archive: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	for files := tar.NewReader(&archive); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg || filepath.Ext(header.Name) != ".go" || !filepath.IsLocal(header.Name) {
			continue
		}
		if err := save(files, filepath.Join(to, filepath.FromSlash(header.Name))); err != nil {
			return err
		}
	}
}

func save(content io.Reader, name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	all, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	return os.WriteFile(name, all, 0o644)
}
