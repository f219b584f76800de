// Command backend answers every request with ok in one write. It ends as applications do: it finishes what is under
// way, or exits at once. And it may be one that is broken, until it is told to be well.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// longest is how long requests under way may take.
const longest = 10 * time.Second

func main() {
	address := flag.String("address", ":8080", "where it listens")
	atOnce := flag.Bool("exit-at-once", false, "exit at SIGTERM; otherwise stop listening then, and finish what is under way")
	broken := flag.Bool("reset", false, "reset each connection when a request has come, until somebody asks for /well; /asked says how many requests came since the start, or since then")
	flag.Parse()
	b := &backend{}
	b.broken.Store(*broken)
	if err := b.serve(*address, *atOnce); err != nil {
		fmt.Fprintln(os.Stderr, "backend:", err)
		os.Exit(1)
	}
}

type backend struct {
	broken atomic.Bool
	asked  atomic.Int64
}

func (b *backend) serve(address string, atOnce bool) error {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	handler := http.NewServeMux()
	handler.HandleFunc("/", b.answer)
	handler.HandleFunc("/asked", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, b.asked.Load()) })
	handler.HandleFunc("/well", func(w http.ResponseWriter, _ *http.Request) {
		b.broken.Store(false)
		fmt.Fprintln(w, b.asked.Swap(0))
	})
	server := &http.Server{Addr: address, Handler: handler}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-terminated:
	}
	if atOnce {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	return server.Shutdown(ctx)
}

func (b *backend) answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	b.asked.Add(1)
	if b.broken.Load() {
		reset(w)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

// reset ends the request's connection with RST.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}
