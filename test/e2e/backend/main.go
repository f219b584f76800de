// Command backend answers every request with ok in one write, and ends as applications do: it finishes what
// is under way, or exits at once.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// longest is how long requests under way may take.
const longest = 10 * time.Second

func main() {
	address := flag.String("address", ":8080", "where it listens")
	atOnce := flag.Bool("exit-at-once", false, "exit at SIGTERM; otherwise stop listening then, and finish what is under way")
	flag.Parse()
	if err := serve(*address, *atOnce); err != nil {
		fmt.Fprintln(os.Stderr, "backend:", err)
		os.Exit(1)
	}
}

func serve(address string, atOnce bool) error {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	server := &http.Server{Addr: address, Handler: http.HandlerFunc(answer)}
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

func answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, "ok\n")
}
