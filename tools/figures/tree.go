package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// area is what a file is for.
type area int

const (
	// product is what is in api, cmd and internal, but for its tests.
	product area = iota
	// productTests are beside it.
	productTests
	// tests is all that is in test/.
	tests
	tools
	examples
)

// source is one Go file.
type source struct {
	// folder is the package's path in the tree.
	folder string
	area   area
	lines  int
	// set is that of all files, in which this one has its place.
	set *token.FileSet
	*ast.File
}

// read reads the Go files of a tree but those that are generated.
func read(folder string) (files []source, err error) {
	set := token.NewFileSet()
	err = filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enter(name != folder, entry.Name())
		}
		rel, err := filepath.Rel(folder, name)
		if err != nil || filepath.Ext(name) != ".go" {
			return err
		}
		file, written, err := readFile(set, name, filepath.ToSlash(rel))
		if written {
			files = append(files, file)
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("there is no code of ours in %s: run this at the top of the repository", folder)
	}
	return files, err
}

// enter is fs.SkipDir for a folder in which the Go command looks for no packages.
func enter(within bool, name string) error {
	if within && (name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
		return fs.SkipDir
	}
	return nil
}

// readFile reads a file, which was written by people unless it is generated or in a folder that is
// none of ours.
func readFile(set *token.FileSet, name, rel string) (file source, written bool, err error) {
	of, known := areaOf(rel)
	if !known {
		return file, false, nil
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return file, false, err
	}
	parsed, err := parser.ParseFile(set, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(parsed) {
		return file, false, err
	}
	return source{path.Dir(rel), of, bytes.Count(content, []byte("\n")), set, parsed}, true, nil
}

func areaOf(rel string) (of area, known bool) {
	top, _, _ := strings.Cut(rel, "/")
	switch top {
	case "api", "cmd", "internal":
		if strings.HasSuffix(rel, "_test.go") {
			return productTests, true
		}
		return product, true
	case "test":
		return tests, true
	case "tools":
		return tools, true
	case "examples":
		return examples, true
	}
	return 0, false
}
