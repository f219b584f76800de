// Command bare is the least that a proxy made of net/http's Server takes: it writes the request to the next
// endpoint as it came, and copies the answer, without routes, checks, bounds or metrics. It is for the benchmark's
// endpoints and clients alone, which are never wrong.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
)

func main() {
	address := flag.String("address", "", "where it listens")
	endpoints := flag.String("endpoints", "", "addresses of endpoints, with commas")
	flag.Parse()
	b := &bare{endpoints: strings.Split(*endpoints, ",")}
	fmt.Fprintln(os.Stderr, "bare:", http.ListenAndServe(*address, b))
	os.Exit(1)
}

// bare has the connections that wait for a request, the one used last at the end.
type bare struct {
	endpoints []string
	mu        sync.Mutex
	opened    int
	idle      []*conn
}

type conn struct {
	net.Conn
	in  *bufio.Reader
	out []byte
}

// ServeHTTP passes a request on, and the answer back.
func (b *bare) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := b.take()
	if err == nil {
		err = c.pass(w, r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		panic(http.ErrAbortHandler)
	}
	b.mu.Lock()
	b.idle = append(b.idle, c)
	b.mu.Unlock()
}

func (b *bare) take() (*conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := len(b.idle) - 1; last >= 0 {
		c := b.idle[last]
		b.idle = b.idle[:last]
		return c, nil
	}
	b.opened++
	tcp, err := net.Dial("tcp", b.endpoints[b.opened%len(b.endpoints)])
	return &conn{Conn: tcp, in: bufio.NewReader(tcp)}, err
}

func (c *conn) pass(w http.ResponseWriter, r *http.Request) error {
	c.out = fmt.Appendf(c.out[:0], "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, r.RequestURI, r.Host)
	for name, values := range r.Header {
		c.out = append(append(append(append(c.out, name...), ": "...), values[0]...), "\r\n"...)
	}
	if _, err := c.Write(append(c.out, "\r\n"...)); err != nil {
		return err
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil || len(line) < 12 {
		return errors.Join(err, fmt.Errorf("status line %q", line))
	}
	status, _ := strconv.Atoi(string(line[9:12]))
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		name, value, field := strings.Cut(strings.TrimSpace(string(line)), ": ")
		if !field {
			break
		}
		w.Header()[http.CanonicalHeaderKey(name)] = []string{value}
	}
	length, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64)
	if err != nil {
		return err
	}
	w.WriteHeader(status)
	_, err = io.CopyN(w, c.in, length)
	return err
}
