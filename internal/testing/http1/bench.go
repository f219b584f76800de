package http1

import (
	"bufio"
	"fmt"
	"net"
	"strings"
)

// Kilobyte is a response whose body has so much.
var Kilobyte = Body(1024)

// Body is a response whose body has that many bytes.
func Body(n int) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nDate: Sat, 28 Nov 2026 12:00:00 GMT\r\nContent-Type: text/plain\r\nServer: test\r\nContent-Length: %d\r\n\r\n", n) + strings.Repeat("x", n)
}

// Serve says a text to every request, none of which may have a body, at the address that it gives, until
// the process ends. It panics where it cannot.
func Serve(text string) net.Addr {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	answer := []byte(text)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				panic(err)
			}
			go serve(conn, answer)
		}
	}()
	return l.Addr()
}

func serve(conn net.Conn, answer []byte) {
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		if len(line) == len("\r\n") {
			conn.Write(answer)
		}
	}
}
