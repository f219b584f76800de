package main

import (
	"io"
	"net"
	"os"
)

// forward accepts connections on an inherited listener, which belongs to the
// network namespace it was made in, and connects each to an address in the
// namespace of this process.
func forward(fd uintptr, to string) error {
	file := os.NewFile(fd, "listener")
	defer file.Close() // the listener has a copy, which services do not inherit
	listener, err := net.FileListener(file)
	if err != nil {
		return err
	}
	go func() {
		for {
			outside, err := listener.Accept()
			if err != nil {
				return
			}
			go connect(outside, to)
		}
	}()
	return nil
}

func connect(outside net.Conn, to string) {
	defer outside.Close()
	inside, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer inside.Close()
	go pipe(inside, outside)
	pipe(outside, inside)
}

// pipe copies until one side ends, and passes the end on.
func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.(*net.TCPConn).CloseWrite()
}
