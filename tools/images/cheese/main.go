// Command cheese serves the picture of a cheese, which its argument names, at port 80: it is what the guide to
// Ingresses sends requests to.
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

//go:embed *.svg
var pictures embed.FS

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cheese:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("name one cheese")
	}
	page, err := serve(args[0])
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	server := &http.Server{Addr: ":80", Handler: page, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	context.AfterFunc(ctx, func() { ended <- server.Shutdown(context.Background()) })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}

// serve answers any request with the page of a cheese, and names it in a header for those who see no pictures.
func serve(cheese string) (http.Handler, error) {
	picture, err := pictures.ReadFile(cheese + ".svg")
	if err != nil {
		return nil, fmt.Errorf("there is no picture of %q", cheese)
	}
	page := fmt.Appendf(nil, "<!DOCTYPE html>\n<html lang=\"en\">\n<title>%s</title>\n<h1>%s</h1>\n%s</html>\n", cheese, cheese, picture)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("X-Cheese", cheese)
		_, _ = w.Write(page)
	}), nil
}
