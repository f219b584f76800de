package connections

import (
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkDump measures a dump and its entry into the ledger with 20,000 open
// connections, of which both ends are in the namespace: the kernel looks at 40,000.
// So that few files are needed, nobody accepts them and the peers have closed.
// cpu-ms/op is the processor time of one, the kernel's and ours: the interval follows it.
func BenchmarkDump(b *testing.B) {
	const connections, listeners = 20_000, 8
	share := func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }
	p := listen(b, over4, share)
	for range listeners - 1 {
		if _, err := listenOn(b, over4, p.number, share); err != nil {
			b.Fatal(err)
		}
	}
	for i := range connections {
		peer, err := net.DialTCP("tcp", &net.TCPAddr{IP: net.ParseIP(peer4), Port: 10_000 + i}, p.Addr().(*net.TCPAddr))
		if err != nil {
			b.Fatal(err)
		}
		peer.Close()
	}
	k := open(b, receiveBuffer, p.number)
	l := newLedger([]uint16{p.number})
	runtime.GC()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begun := threadTime()
	for b.Loop() {
		found, _, err := k.dump()
		if err != nil || len(found) != connections {
			b.Fatalf("%d connections (%v)", len(found), err)
		}
		l.dumped(found, time.Now())
	}
	b.ReportMetric(float64((threadTime()-begun).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}
