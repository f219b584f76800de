package traffic

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// maxBody bounds what is read: no expected answer is so large.
const maxBody = 1 << 20

const requestBody = "hello"

// connection carries one request at a time. It is not net/http's Transport, which
// sends a request again on a fresh connection when a kept one fails under it.
type connection struct {
	net.Conn
	reader   *bufio.Reader
	readErr  error // the last one of Read, which a parser may have covered with its own
	opened   time.Time
	answered int
}

func dial(address string, start, deadline time.Time) (*connection, error) {
	dialer := net.Dialer{Deadline: deadline}
	conn, err := dialer.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: conn, opened: start}
	c.reader = bufio.NewReaderSize(c, 2048)
	return c, nil
}

func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.readErr = err
	return n, err
}

// open tells whether a request may be sent: the peer has neither closed the
// connection nor sent anything since its last answer. It looks without blocking, as
// any HTTP client does that keeps connections. A close still on its way is not seen
// here; the request sent into it fails and is counted.
func (c *connection) open() bool {
	raw, err := c.Conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return false
	}
	var peekErr error
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, peekErr = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	})
	return err == nil && errors.Is(peekErr, syscall.EAGAIN)
}

// answer is a complete response.
type answer struct {
	status    int
	body      string
	header    http.Header
	keepAlive bool
}

// exchange sends the request once and reads one answer. The connection is of no
// more use after an error.
func (c *connection) exchange(request []byte, deadline time.Time) (answer, Kind, error) {
	c.SetDeadline(deadline)
	if _, err := c.Write(request); err != nil {
		return answer{}, kindOf(err, Closed), err
	}
	if _, err := c.reader.Peek(1); err != nil {
		return answer{}, kindOf(err, Closed), err
	}
	a, err := c.read()
	if err != nil {
		return a, kindOf(cmp.Or(c.readErr, err), Truncated), err
	}
	if c.reader.Buffered() > 0 {
		return a, Protocol, fmt.Errorf("%d bytes after the end of the answer", c.reader.Buffered())
	}
	c.answered++
	return a, "", nil
}

func (c *connection) read() (answer, error) {
	for {
		response, err := http.ReadResponse(c.reader, nil)
		if err != nil {
			return answer{}, err
		}
		body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
		if err == nil && len(body) == maxBody {
			err = fmt.Errorf("a body of %d bytes or more", maxBody)
		}
		interim := response.StatusCode/100 == 1
		if err == nil && interim {
			continue
		}
		return answer{response.StatusCode, string(body), response.Header, !response.Close}, err
	}
}

// kindOf names an error of a connection; eof is what an end of stream means here.
func kindOf(err error, eof Kind) Kind {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return Timeout
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Reset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return eof
	default:
		return Protocol
	}
}

// awaitClose lets the peer close first, as it said it would, so that TIME_WAIT does
// not use up this side's ports. It waits a second at most, away from the worker.
func (c *connection) awaitClose() {
	c.SetDeadline(time.Now().Add(time.Second))
	io.Copy(io.Discard, c.Conn)
	c.Close()
}

// requestOf returns the bytes of the stream's one request.
func requestOf(s Stream) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: traffic\r\n", s.Method, s.Path, s.Host)
	body := requestBody
	if s.Method == "GET" {
		body = ""
	} else {
		fmt.Fprintf(&b, "Content-Type: text/plain\r\nContent-Length: %d\r\n", len(body))
	}
	if !s.KeepAlive {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n" + body)
	return []byte(b.String())
}
