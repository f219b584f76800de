package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// servesBenchmark is set for the process that is endpoint and client of the benchmark, so that what they
// cost is not counted.
const servesBenchmark = "PROXY_SERVES_BENCHMARK"

// workers are how many connections the client has.
const workers = 32

var kilobyte = "HTTP/1.1 200 OK\r\nDate: Sat, 28 Nov 2026 12:00:00 GMT\r\nContent-Type: text/plain\r\nServer: test\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024)

// serveBenchmark answers every request with a kilobyte, and sends as many as each line of its input says,
// to the address there, until that ends.
func serveBenchmark() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				panic(err)
			}
			go answerBenchmark(conn)
		}
	}()
	fmt.Println(l.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var address string
		var n int
		if _, err := fmt.Sscan(in.Text(), &address, &n); err != nil {
			panic(err)
		}
		fmt.Println(ask(address, n))
	}
	os.Exit(0)
}

func answerBenchmark(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		if len(line) == 2 {
			io.WriteString(conn, kilobyte)
		}
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

// peers are that process.
type peers struct {
	in  io.Writer
	out *bufio.Reader
	// endpoint is where it answers.
	endpoint wire.Endpoint
}

func startPeers(b *testing.B) *peers {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), servesBenchmark+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	p := &peers{in: in, out: bufio.NewReader(out)}
	address, err := net.ResolveTCPAddr("tcp", strings.TrimSpace(p.line(b)))
	if err != nil {
		b.Fatal(err)
	}
	p.endpoint = endpointAt(address, "pod")
	return p
}

func (p *peers) line(b *testing.B) string {
	line, err := p.out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return line
}

func (p *peers) ask(b *testing.B, address string, n int) {
	fmt.Fprintln(p.in, address, n)
	if said := p.line(b); said != "<nil>\n" {
		b.Fatal(said)
	}
}

func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
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
			b.ReportAllocs()
			b.ResetTimer()
			begun := cpu()
			p.ask(b, side.address, b.N)
			b.ReportMetric(float64((cpu()-begun).Nanoseconds())/1000/float64(b.N), "cpu-µs/op")
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
