package stream

import (
	"fmt"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// BenchmarkChange is a change of one resource of 30,000, told on 1,000 streams.
func BenchmarkChange(b *testing.B) {
	l := New()
	all := make([]wire.Resource, 30_000)
	for i := range all {
		all[i] = backend(fmt.Sprint("shop/cheese-", i, ":80"), 1)
	}
	if _, refused := l.Commit(all, nil); len(refused) > 0 {
		b.Fatal(refused[0])
	}
	streams := make([]*Cursor, 1000)
	for i := range streams {
		streams[i] = l.Open(nil)
		m, _, _ := streams[i].Next()
		answer(b, streams[i], m)
	}
	b.ReportAllocs()
	for port := uint16(2); b.Loop(); port = 2 + (port+1)%1000 {
		all[7].Backend = &wire.Backend{Port: port}
		l.Commit(all[7:8], nil)
		for _, c := range streams {
			m, is, _ := c.Next()
			if !is || len(m.Parts) != 3 {
				b.Fatalf("owed are %d parts", len(m.Parts))
			}
			answer(b, c, m)
		}
	}
}

// BenchmarkFirst is the first message of a stream, of 30,000 resources that the proxy has but for a few.
func BenchmarkFirst(b *testing.B) {
	l := New()
	all, versions := make([]wire.Resource, 30_000), map[string]string{}
	for i := range all {
		all[i] = backend(fmt.Sprint("shop/cheese-", i, ":80"), 1)
		if i%1000 > 0 {
			name := wire.NameOf(all[i])
			versions[name], _, _ = encode(name, all[i])
		}
	}
	l.Commit(all, nil)
	b.ReportAllocs()
	for b.Loop() {
		c := l.Open(versions)
		if m, _, _ := c.Next(); len(m.Parts) != 32 {
			b.Fatalf("owed are %d parts", len(m.Parts))
		}
		c.Close()
	}
}
