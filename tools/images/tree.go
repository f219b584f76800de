package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"os"
	"path"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// tree is the content of an image: what is at each path, which begins with a slash.
// Folders above a path are made as needed.
type tree map[string]entry

type entry struct {
	kind    byte // of package tar; a regular file by default
	mode    int64
	content []byte // of a regular file
	source  string // a file of this machine to copy, instead of content
	target  string // of a link
	xattrs  map[string]string
}

func (t tree) text(path, content string) { t[path] = entry{mode: 0o644, content: []byte(content)} }
func (t tree) program(path, source string) {
	t[path] = entry{mode: 0o755, source: source}
}
func (t tree) folder(path string, mode int64) { t[path] = entry{kind: tar.TypeDir, mode: mode} }
func (t tree) link(path, target string) {
	t[path] = entry{kind: tar.TypeSymlink, mode: 0o777, target: target}
}

// layer archives the tree, sorted, owned by root and without times.
func (t tree) layer() (v1.Layer, error) {
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	complete := t.withParents()
	for _, name := range slices.Sorted(maps.Keys(complete)) {
		if err := complete[name].write(writer, name); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(open,
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestSpeed), tarball.WithCompressedCaching)
}

func (t tree) withParents() tree {
	complete := maps.Clone(t)
	for name := range t {
		for folder := path.Dir(name); folder != "/"; folder = path.Dir(folder) {
			if _, ok := complete[folder]; !ok {
				complete.folder(folder, 0o755)
			}
		}
	}
	return complete
}

func (e entry) write(writer *tar.Writer, name string) error {
	if e.source != "" {
		content, err := os.ReadFile(e.source)
		if err != nil {
			return err
		}
		e.content = content
	}
	header := &tar.Header{
		Typeflag: e.kind, Name: name[1:], Linkname: e.target, Mode: e.mode, Size: int64(len(e.content)), ModTime: epoch,
	}
	if e.kind == 0 {
		header.Typeflag = tar.TypeReg
	}
	for key, value := range e.xattrs {
		header.PAXRecords = map[string]string{"SCHILY.xattr." + key: value}
	}
	if err := writer.WriteHeader(header); err != nil {
		return err
	}
	_, err := writer.Write(e.content)
	return err
}
