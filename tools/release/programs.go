package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// product is what runs in a cluster, plugin what users run.
const (
	product = "ingress-daemonset-controller"
	plugin  = "kubectl-ids"
)

// completer has kubectl complete what follows kubectl ids, where it is found in the PATH.
const completer = `#!/bin/sh
exec kubectl ids __complete "$@"
`

// build builds a command for a platform and returns the file.
func (r *release) build(ctx context.Context, command string, p platform) (string, error) {
	file := filepath.Join(r.scratch, p.os+"-"+p.arch, command+extension(p))
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -X main.version="+r.version, "-o", file, "./cmd/"+command)
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s for %s: %w: %s", command, p, err, out)
	}
	return file, nil
}

func extension(p platform) string {
	if p.os == "windows" {
		return ".exe"
	}
	return ""
}

// packPlugin packs kubectl ids for each platform, with its license, and writes what
// krew has to know of them.
func (r *release) packPlugin(ctx context.Context) error {
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	var programs []string
	for _, p := range r.users {
		program, err := r.build(ctx, plugin, p)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(program)
		if err != nil {
			return err
		}
		entries := []entry{{"LICENSE", 0o644, license}, {filepath.Base(program), 0o755, content}}
		if p.os != "windows" {
			entries = append(entries, entry{"kubectl_complete-ids", 0o755, []byte(completer)})
		}
		packed, err := pack(p, entries)
		if err != nil {
			return err
		}
		if err := os.WriteFile(r.path(r.archiveOf(p)), packed, 0o644); err != nil {
			return err
		}
		programs = append(programs, program)
	}
	if err := r.writeBOM(plugin, programs); err != nil {
		return err
	}
	return r.writeKrew()
}

// archiveOf is the file with the plugin for a platform.
func (r *release) archiveOf(p platform) string {
	kind := ".tar.gz"
	if p.os == "windows" {
		kind = ".zip"
	}
	return r.named(plugin, "_"+p.os+"_"+p.arch+kind)
}

type entry struct {
	name    string
	mode    os.FileMode
	content []byte
}

// epoch is the time of every file: the zip format begins in 1980.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

func pack(p platform, entries []entry) ([]byte, error) {
	if p.os == "windows" {
		return zipped(entries)
	}
	return tarred(entries)
}

func zipped(entries []entry) ([]byte, error) {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: epoch}
		header.SetMode(e.mode)
		file, err := archive.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := file.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return out.Bytes(), err
}

func tarred(entries []entry) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	for _, e := range entries {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: int64(e.mode), Size: int64(len(e.content)), ModTime: epoch}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := io.Copy(archive, bytes.NewReader(e.content)); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	err := compressed.Close()
	return out.Bytes(), err
}
