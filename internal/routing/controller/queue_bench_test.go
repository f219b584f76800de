package controller

import (
	"fmt"
	"testing"
)

// BenchmarkWriteOfMany is the write of one status where 10,000 are due, of 100 namespaces.
func BenchmarkWriteOfMany(b *testing.B) {
	w := newWriting(b)
	w.turns.between = 0
	for i := range 10_000 {
		w.want(fmt.Sprint("of-", i%100), fmt.Sprint("in-", i), "192.0.2.1")
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		ref, is := w.turn()
		if !is {
			b.Fatal("none has its turn")
		}
		if _, err := w.write(b.Context(), ref); err != nil {
			b.Fatal(err)
		}
		w.want(ref.Namespace, ref.Name, fmt.Sprint("192.0.2.", i%200))
	}
}
