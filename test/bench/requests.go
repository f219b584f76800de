package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// connections is how many a client has at a time.
const connections = 32

// requests are sent over connections that stay open, each as soon as its connection has the answer to the one
// before.
type requests struct {
	address, path string
	// host is that of the request of a number.
	host func(int) string
	// length is that of the body of each answer.
	length int
}

// send sends so many.
func (q requests) send(ctx context.Context, times int) error {
	var sent atomic.Int64
	return connected(ctx, q.address, func(conn net.Conn) error {
		in := bufio.NewReaderSize(conn, 64<<10)
		var out []byte
		for n := int(sent.Add(1)); n <= times; n = int(sent.Add(1)) {
			out = fmt.Appendf(out[:0], "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n", q.path, q.host(n))
			if _, err := conn.Write(out); err != nil {
				return err
			}
			a, err := readAnswer(in)
			if err != nil {
				return err
			}
			if a.status != 200 || a.length != q.length {
				return fmt.Errorf("GET %s of %s: status %d and a body of %d bytes", q.path, q.host(n), a.status, a.length)
			}
		}
		return nil
	})
}

// handshakes makes so many TLS handshakes, each on a connection of its own.
func handshakes(ctx context.Context, address, host string, times int) error {
	config := &tls.Config{
		ServerName: host, MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519},
		// Its certificate signs itself. What the client does costs another process than those that are measured.
		InsecureSkipVerify: true,
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(connections)
	for range times {
		group.Go(func() error { return handshake(groupCtx, address, config) })
	}
	return group.Wait()
}

// handshake returns when the other end has closed the connection, and so has seen the end of the handshake.
func handshake(ctx context.Context, address string, config *tls.Config) error {
	conn, err := dial(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return err
	}
	if state := secured.ConnectionState(); state.DidResume || state.CurveID != tls.X25519 {
		return fmt.Errorf("no full handshake with X25519: resumed %v, with %s", state.DidResume, state.CurveID)
	}
	if err := secured.CloseWrite(); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, secured)
	return err
}

// connected has each connection used until all are done, or one fails.
func connected(ctx context.Context, address string, use func(net.Conn) error) error {
	group, groupCtx := errgroup.WithContext(ctx)
	for range connections {
		group.Go(func() error {
			conn, err := dial(groupCtx, address)
			if err != nil {
				return err
			}
			defer conn.Close()
			defer context.AfterFunc(groupCtx, func() { conn.Close() })()
			return use(conn)
		})
	}
	return group.Wait()
}

// dial connects for as long as a round may take.
func dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(5 * time.Minute))
}

// answer is what a client looks at.
type answer struct {
	status, length int
	// from is the header by which an endpoint names itself.
	from string
}

const fromHeader = "x-from"

// readAnswer reads an answer whose length is given, and throws its body away.
func readAnswer(in *bufio.Reader) (a answer, err error) {
	a.length = -1
	line, err := in.ReadSlice('\n')
	if err != nil {
		return a, err
	}
	if _, after, found := bytes.Cut(line, []byte(" ")); found && len(after) >= 3 {
		a.status, err = strconv.Atoi(string(after[:3]))
	}
	if err != nil || a.status == 0 {
		return a, fmt.Errorf("status line %q", line)
	}
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return a, err
		}
		name, value, found := bytes.Cut(bytes.TrimSpace(line), []byte(":"))
		switch {
		case !found:
			if a.length < 0 {
				return a, errors.New("the answer does not say how long it is")
			}
			_, err := in.Discard(a.length)
			return a, err
		case bytes.EqualFold(name, []byte("content-length")):
			if a.length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return a, err
			}
		case bytes.EqualFold(name, []byte(fromHeader)):
			a.from = string(bytes.TrimSpace(value))
		}
	}
}
