package upstream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// servesBenchmark is set for the process that answers the benchmark, so that what it costs is not
// counted.
const servesBenchmark = "UPSTREAM_SERVES_BENCHMARK"

var kilobyte = "HTTP/1.1 200 OK\r\nDate: Sat, 28 Nov 2026 12:00:00 GMT\r\nContent-Type: text/plain\r\nServer: test\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024)

// serveBenchmark answers every request with a kilobyte, until its input ends.
func serveBenchmark() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	go func() { io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
	for {
		conn, err := l.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
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
		}()
	}
}

// startServer starts that process, and gives its address.
func startServer(b *testing.B) netip.AddrPort {
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
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return netip.MustParseAddrPort(strings.TrimSpace(line))
}

func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkGet is a GET whose answer has a kilobyte, over 32 connections, beside net/http's Transport;
// cpu-µs/op is the processor time of one, the kernel's and ours, without that of the server.
func BenchmarkGet(b *testing.B) {
	address := startServer(b)
	p := client(b, Key{Address: address})
	transport := &http.Transport{MaxIdleConnsPerHost: 32, DisableCompression: true}
	defer transport.CloseIdleConnections()
	for _, side := range []struct {
		name  string
		begin func() func() error
	}{
		{"upstream", func() func() error { return getter(p) }},
		{"transport", func() func() error { return peerGetter(transport, address) }},
	} {
		b.Run(side.name, func(b *testing.B) {
			b.ReportAllocs()
			begun := cpu()
			var wait sync.WaitGroup
			for worker := range 32 {
				get := side.begin()
				wait.Go(func() {
					for i := worker; i < b.N; i += 32 {
						if err := get(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wait.Wait()
			b.ReportMetric(float64((cpu()-begun).Nanoseconds())/1000/float64(b.N), "cpu-µs/op")
		})
	}
}

// getter is as a handler does it, that keeps what it can.
func getter(p *Pool) func() error {
	var h Head
	var r Response
	buf := make([]byte, 32<<10)
	q := &Request{Head: &h}
	return func() error {
		h.Start("GET", "/cheese/stilton?plate=1", "example.com", 0)
		h.Add("User-Agent", "test")
		h.Add("Accept", "*/*")
		h.Add("X-Forwarded-For", "192.0.2.1")
		if err := p.Do(context.Background(), q, &r); err != nil {
			return err
		}
		defer r.Close()
		for n := 0; ; {
			read, err := r.Read(buf)
			if n += read; err == io.EOF && n == 1024 && len(r.Header) == 3 {
				return nil
			}
			if err != nil {
				return fmt.Errorf("%d bytes: %w", n, err)
			}
		}
	}
}

func peerGetter(transport *http.Transport, address netip.AddrPort) func() error {
	buf := make([]byte, 32<<10)
	return func() error {
		q, err := http.NewRequest("GET", "http://"+address.String()+"/cheese/stilton?plate=1", nil)
		if err != nil {
			return err
		}
		q.Host = "example.com"
		q.Header = http.Header{"User-Agent": {"test"}, "Accept": {"*/*"}, "X-Forwarded-For": {"192.0.2.1"}}
		r, err := transport.RoundTrip(q)
		if err != nil {
			return err
		}
		defer r.Body.Close()
		for n := 0; ; {
			read, err := r.Body.Read(buf)
			if n += read; err == io.EOF && n == 1024 && len(r.Header) == 4 {
				return nil
			}
			if err != nil {
				return fmt.Errorf("%d bytes: %w", n, err)
			}
		}
	}
}

func BenchmarkParseHead(b *testing.B) {
	text, _, _ := strings.Cut(kilobyte, "\r\n\r\n")
	text += "\r\n\r\n"
	var fields []Header
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if _, fields, err = parseHead(text, fields[:0]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChunks(b *testing.B) {
	text := strings.Repeat(chunk(strings.Repeat("x", 4096)), 256) + "0\r\n\r\n"
	p := make([]byte, 32<<10)
	b.SetBytes(int64(len(text)))
	var in reader
	defer in.release()
	for b.Loop() {
		in.src = strings.NewReader(text)
		var body body
		body.begin(&in, answer{status: 200, length: -1, chunked: true}, false)
		var err error
		for err == nil {
			_, err = body.Read(p)
		}
		if err != io.EOF {
			b.Fatal(err)
		}
	}
}
