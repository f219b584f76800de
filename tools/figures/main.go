// Command figures prints a table of figures of the tree that it is run in: lines, packages, methods
// of the largest types, arrows between files, exported names, calls of the clock and sleeps.
//
//	go run ./tools/figures
//	go run ./tools/figures -at COMMIT
//	go run ./tools/figures -arrows internal/targets
//
// They are counted in the source as it is written, without generated files and testdata; sleeps are
// those of virtual time, too. tree.go reads the files, figures.go and arrows.go count, commit.go gets
// the tree of a commit.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	commit := flag.String("at", "", "count in the tree of this commit instead")
	arrows := flag.String("arrows", "", "print instead in which order fewest arrows run back between the files of this package, and which do")
	flag.Parse()
	err := run(os.Stdout, ".", *commit, *arrows)
	if flag.NArg() > 0 {
		err = fmt.Errorf("it takes no argument, but %s", flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// run prints the figures of a folder, or of a commit of the repository that it is in, or the arrows of one package.
func run(to io.Writer, folder, commit, arrows string) error {
	if commit != "" {
		scratch, err := os.MkdirTemp("", "figures-*")
		if err != nil {
			return err
		}
		defer os.RemoveAll(scratch)
		if err := extract(folder, commit, scratch); err != nil {
			return fmt.Errorf("getting the tree of %s: %w", commit, err)
		}
		folder = scratch
	}
	files, err := read(folder)
	if err != nil {
		return err
	}
	if arrows != "" {
		return writeArrows(to, files, arrows)
	}
	return write(to, count(files))
}

// write writes figures as a table.
func write(to io.Writer, all []figure) error {
	width := 0
	for _, f := range all {
		width = max(width, len(f.name))
	}
	for _, f := range all {
		line := fmt.Sprintf("%-*s %7d  %s", width, f.name, f.value, f.note)
		if _, err := fmt.Fprintln(to, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}
