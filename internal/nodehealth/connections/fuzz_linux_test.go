package connections

import (
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzMessages reads any datagram: messages within it, each once, and an error at most at its
// end.
func FuzzMessages(f *testing.F) {
	whole := make([]byte, unix.SizeofNlMsghdr+sizeofDiagMessage)
	order.PutUint32(whole, uint32(len(whole)))
	f.Add(whole)
	f.Add(append(append([]byte{}, whole...), whole...))
	f.Add(whole[:10])
	f.Add(whole[:80])
	for _, size := range []uint32{0, 8, 16, 17, 0xffffffff} {
		b := append([]byte{}, whole...)
		order.PutUint32(b, size)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, datagram []byte) {
		read, failed := 0, false
		for m, err := range messages(datagram) {
			if failed {
				t.Fatal("a message comes after an error")
			}
			if failed = err != nil; failed {
				continue
			}
			if read += unix.SizeofNlMsghdr + len(m.body); read > len(datagram) {
				t.Fatalf("%d bytes are read of %d", read, len(datagram))
			}
			_ = m.failure()
			if c, counts, err := decode(m.body); err != nil && (counts || c != connection{}) {
				t.Errorf("%+v beside %v", c, err)
			}
		}
		k := &kernel{}
		_, _ = k.collect(datagram)
	})
}
