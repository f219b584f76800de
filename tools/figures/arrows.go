package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"io"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// graph is what the files of a package use of each other: uses[a][b] are the names in file b that file a uses.
// Where there is one, an arrow runs from a to b.
type graph struct {
	files []string
	uses  [][][]string
}

// graphOf reads which functions, methods, types, variables and constants each file of a package uses. What only
// the packages that it imports would tell, such as the type of what one of their functions returns, is left out:
// these are not read.
func graphOf(files []source, folder string) (g graph) {
	var parsed []*ast.File
	at := map[*token.File]int{}
	for _, f := range in([]area{product}, files) {
		if f.folder == folder {
			file := f.set.File(f.Pos())
			at[file] = len(parsed)
			parsed, g.files = append(parsed, f.File), append(g.files, filepath.Base(file.Name()))
		}
	}
	g.uses = make([][][]string, len(parsed))
	for i := range g.uses {
		g.uses[i] = make([][]string, len(parsed))
	}
	// Nothing is imported, so that the checker finds much amiss, and goes on.
	set, config := files[0].set, types.Config{Error: func(error) {}}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	pkg, _ := config.Check(folder, set, parsed, &info)
	for use, object := range info.Uses {
		if object.Pkg() != pkg || !isDeclaration(object) {
			continue
		}
		from, to := at[set.File(use.Pos())], at[set.File(object.Pos())]
		if names := g.uses[from][to]; from != to && !slices.Contains(names, use.Name) {
			g.uses[from][to] = append(names, use.Name)
		}
	}
	return g
}

// isDeclaration is false for what is local, and for a field, which comes with its type.
func isDeclaration(object types.Object) bool {
	if method, ok := object.(*types.Func); ok && method.Signature().Recv() != nil {
		return true
	}
	return object.Parent() == object.Pkg().Scope()
}

func (g graph) arrow(from, to int) bool { return len(g.uses[from][to]) > 0 }

// count is how many arrows there are.
func (g graph) count() (n int) {
	for from := range g.uses {
		for to := range g.uses {
			if g.arrow(from, to) {
				n++
			}
		}
	}
	return n
}

// back are the arrows that run back, from a file to one that stands before it.
func (g graph) back(order []int) (arrows [][2]int) {
	for i, from := range order {
		for _, to := range order[:i] {
			if g.arrow(from, to) {
				arrows = append(arrows, [2]int{from, to})
			}
		}
	}
	return arrows
}

// order is the one in which fewest arrows run back, as far as one is found: of 100 random ones each file is moved
// to where it does best, until none moves.
func (g graph) order() (best []int) {
	dice := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		order := dice.Perm(len(g.files))
		for g.improve(order) {
		}
		if best == nil || len(g.back(order)) < len(g.back(best)) {
			best = order
		}
	}
	return best
}

// improve moves each file to where fewest arrows run back, and tells whether one has moved.
func (g graph) improve(order []int) (moved bool) {
	for file := range g.files {
		at := slices.Index(order, file)
		best, most := at, 0
		for to, gain := at-1, 0; to >= 0; to-- {
			if gain += g.gain(order[to], file); gain > most {
				best, most = to, gain
			}
		}
		for to, gain := at+1, 0; to < len(order); to++ {
			if gain += g.gain(file, order[to]); gain > most {
				best, most = to, gain
			}
		}
		if best != at {
			copy(order[at:], order[at+1:])
			copy(order[best+1:], order[best:len(order)-1])
			order[best], moved = file, true
		}
	}
	return moved
}

// gain is how many fewer arrows run back when the left one of two files is moved to the right of the other.
func (g graph) gain(left, right int) (n int) {
	if g.arrow(right, left) {
		n++
	}
	if g.arrow(left, right) {
		n--
	}
	return n
}

// writeArrows writes the files of a package in that order, and which arrows run back, by what names.
func writeArrows(to io.Writer, files []source, folder string) error {
	g := graphOf(files, path.Clean(filepath.ToSlash(folder)))
	if len(g.files) == 0 {
		return fmt.Errorf("there is no production code in %s", folder)
	}
	var b strings.Builder
	order := g.order()
	for _, file := range order {
		fmt.Fprintln(&b, g.files[file])
	}
	back := g.back(order)
	fmt.Fprintf(&b, "\n%d of %d arrows run back:\n", len(back), g.count())
	for _, arrow := range back {
		from, to := arrow[0], arrow[1]
		names := slices.Sorted(slices.Values(g.uses[from][to]))
		fmt.Fprintf(&b, "%s uses %s of %s\n", g.files[from], strings.Join(names, ", "), g.files[to])
	}
	_, err := io.WriteString(to, b.String())
	return err
}
