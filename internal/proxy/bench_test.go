package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/apart"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
)

// workers are how many connections the client has.
const workers = 32

// serveBenchmark is endpoint and client of the benchmark: it answers every request with a kilobyte, and sends
// as many as each line of its input says, to the address there, until that ends.
func serveBenchmark() {
	fmt.Println(http1.Serve(http1.Kilobyte))
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var address string
		var n int
		if _, err := fmt.Sscan(in.Text(), &address, &n); err != nil {
			panic(err)
		}
		fmt.Println(ask(address, n))
	}
}

// ask sends n requests in all, over all connections at a time, and gives the first error.
func ask(address string, n int) error {
	failed := make(chan error, workers)
	var wait sync.WaitGroup
	for worker := range workers {
		wait.Go(func() {
			if err := askAlone(address, (n+worker)/workers); err != nil {
				failed <- err
			}
		})
	}
	wait.Wait()
	close(failed)
	return <-failed
}

func askAlone(address string, n int) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for range n {
		io.WriteString(conn, "GET /cheese/stilton?plate=1 HTTP/1.1\r\nHost: example.com\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n")
		length := 0
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return err
			}
			if len(line) == 2 {
				break
			}
			fmt.Sscanf(strings.ToLower(string(line)), "content-length: %d", &length)
		}
		if length != 1024 {
			return fmt.Errorf("a body of %d bytes", length)
		}
		if _, err := in.Discard(length); err != nil {
			return err
		}
	}
	return nil
}

// peers are the process of serveBenchmark.
type peers struct {
	*apart.Process
	// endpoint is where it answers.
	endpoint wire.Endpoint
}

func startPeers(b *testing.B) *peers {
	b.Helper()
	p := apart.Start(b)
	return &peers{p, endpointAt(netip.MustParseAddrPort(p.Line(b)), "pod")}
}

func (p *peers) ask(b *testing.B, address string, n int) {
	b.Helper()
	p.Tell(b, address, n)
	if said := p.Line(b); said != "<nil>" {
		b.Fatal(said)
	}
}

// BenchmarkProxy is a GET whose answer has a kilobyte, over 32 connections, beside
// httputil.ReverseProxy; cpu-µs/op is the processor time of one, the kernel's and ours, without that of
// client and endpoint.
func BenchmarkProxy(b *testing.B) {
	p := startPeers(b)
	s := started(b)
	tell(b, s, append(backendOf(cheddar, p.endpoint), web(), route("all", func(r *wire.Route) {
		r.Hostnames = []string{"example.com"}
		r.Matches = []wire.Match{{Path: "/cheese"}}
	}))...)
	reverse := reverseProxy(b, p.endpoint)
	for _, side := range []struct{ name, address string }{
		{"proxy", s.Addresses()[80].String()}, {"reverseproxy", reverse},
	} {
		b.Run(side.name, func(b *testing.B) {
			p.ask(b, side.address, 10*workers)
			b.ResetTimer()
			apart.Measure(b, func() { p.ask(b, side.address, b.N) })
		})
	}
}

func reverseProxy(b *testing.B, e wire.Endpoint) (address string) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	to := &url.URL{Scheme: "http", Host: fmt.Sprint(e.Address, ":", e.Port)}
	transport := &http.Transport{MaxIdleConnsPerHost: workers, DisableCompression: true}
	s := &http.Server{Handler: &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to); r.SetXForwarded() },
	}}
	done := make(chan bool)
	go func() {
		s.Serve(l)
		close(done)
	}()
	b.Cleanup(func() {
		s.Close()
		<-done
		transport.CloseIdleConnections()
	})
	return l.Addr().String()
}

// BenchmarkApply is a change of the endpoints of one of 10,000 backends.
func BenchmarkApply(b *testing.B) {
	s := started(b)
	all := []wire.Resource{web()}
	for i := range 10_000 {
		name := fmt.Sprintf("shop/s%d:80", i)
		all = append(all, backendOf(name, wire.Endpoint{Address: "10.0.0.1", Port: 80, UID: "a"})...)
		all = append(all, route(name, func(r *wire.Route) {
			r.Hostnames = []string{fmt.Sprintf("h%d.example", i)}
			r.Backends[0].Backend = name
		}))
	}
	tell(b, s, all...)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		tell(b, s, backendOf("shop/s77:80", wire.Endpoint{Address: "10.0.0.2", Port: uint16(1 + i%1000), UID: "b"})...)
	}
}
