package controller

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestZZStack(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := int32(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	l, _ = net.Listen("tcp", fmt.Sprintf("0.0.0.0:%d", port))
	var n int
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n++
			b := make([]byte, 512)
			_ = b
			_ = c
			_ = io.EOF
		}
	}()
	c := newChecks(func(types.NamespacedName) {})
	var es []endpoint
	for i := range 4000 {
		es = append(es, endpoint{address: fmt.Sprintf("127.9.%d.%d", i/250, 1+i%250), port: port})
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c.want(types.NamespacedName{Name: "x"}, es)
	time.Sleep(4 * time.Second)
	for range 4 {
		runtime.GC()
		time.Sleep(200 * time.Millisecond)
	}
	runtime.ReadMemStats(&after)
	t.Logf("accepted %d stack %d per endpoint, heap %d per endpoint", n, (after.StackInuse-before.StackInuse)/4000, (int(after.HeapAlloc)-int(before.HeapAlloc))/4000)
}
