package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/apart"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
)

// serveBenchmark answers every request with a kilobyte, until its input ends.
func serveBenchmark() {
	fmt.Println(http1.Serve(http1.Kilobyte))
	io.Copy(io.Discard, os.Stdin)
}

// BenchmarkGet is a GET whose answer has a kilobyte, over 32 connections, beside net/http's Transport;
// cpu-µs/op is the processor time of one, the kernel's and ours, without that of the server.
func BenchmarkGet(b *testing.B) {
	address := netip.MustParseAddrPort(apart.Start(b).Line(b))
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
			apart.Measure(b, func() {
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
			})
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
	text, _, _ := strings.Cut(http1.Kilobyte, "\r\n\r\n")
	text += "\r\n\r\n"
	var fields []message.Field
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
	var in message.Reader
	defer in.Release()
	for b.Loop() {
		in.Src = strings.NewReader(text)
		var body message.Body
		body.Begin(&in, message.Chunked, 0)
		var err error
		for err == nil {
			_, err = body.Read(p)
		}
		if err != io.EOF {
			b.Fatal(err)
		}
	}
}
