package holdings

import (
	"fmt"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// many has 10,000 routes, each with a backend.
func many(b *testing.B) *proxy {
	p := newProxy()
	var all []wire.Delivery
	for i := range 10_000 {
		name := fmt.Sprint("shop/cheese-", i, ":80")
		all = append(all, delivery(b, backend(name, "")), delivery(b, endpoints(name)), delivery(b, route(name, name, fmt.Sprint("/", i))))
	}
	if answer := p.take(response("1", all...)); answer.Error != nil {
		b.Fatal(answer.Error.Message)
	}
	p.applied = nil
	return p
}

// BenchmarkTake is a change of one backend's endpoints beside 10,000 routes.
func BenchmarkTake(b *testing.B) {
	p := many(b)
	change := response("2", delivery(b, endpoints("shop/cheese-7:80")))
	b.ReportAllocs()
	for b.Loop() {
		if answer := p.take(change); answer.Error != nil {
			b.Fatal(answer.Error.Message)
		}
		p.applied = p.applied[:0]
	}
}

// BenchmarkSnapshot is a snapshot of 10,000 routes, without its way to the file.
func BenchmarkSnapshot(b *testing.B) {
	p := many(b)
	b.ReportAllocs()
	for b.Loop() {
		content, err := Snapshot{1, p.All()}.Encode()
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(content)))
	}
}
