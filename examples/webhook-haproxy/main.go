// Command webhook-haproxy takes nodes out of HAProxy when the controller asks for it,
// and puts them back. docs/guides/webhook.md says how to run it, and how to write one
// for another load balancer. Read receiver.go next, then haproxy.go.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1/webhook"
)

func main() {
	server := &http.Server{
		// A question and its answer are short; what takes long is asked again.
		ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
	}
	var r receiver
	flag.StringVar(&server.Addr, "listen", "127.0.0.1:9180", "address to be asked at; with port 0, one that is free, which the log tells")
	flag.Func("socket", "runtime `socket` of an HAProxy with level admin, a path or host:port; once for each HAProxy", func(address string) error {
		r.proxies = append(r.proxies, haproxy(address))
		return nil
	})
	flag.Func("secret-file", "`file` with the secret that the controller signs with; twice while it is being changed", func(name string) error {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		secret, err := webhook.Secret(content)
		r.secrets = append(r.secrets, secret)
		return err
	})
	certificate := flag.String("tls-cert", "", "`file` with the certificate, read for each question; without it, plain HTTP is spoken")
	key := flag.String("tls-key", "", "`file` with the key of the certificate")
	flag.Parse()
	if len(r.proxies) == 0 || len(r.secrets) == 0 {
		fmt.Fprintln(os.Stderr, "webhook-haproxy: -socket and -secret-file are needed")
		os.Exit(2)
	}
	server.Handler = newHandler(&r)
	if err := serve(server, *certificate, *key); err != nil {
		fmt.Fprintln(os.Stderr, "webhook-haproxy:", err)
		os.Exit(1)
	}
}

// serve answers until SIGTERM or SIGINT, and what was asked before.
func serve(server *http.Server, certificate, key string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if certificate != "" {
		if _, err := tls.LoadX509KeyPair(certificate, key); err != nil {
			return err
		}
		server.TLSConfig = &tls.Config{GetCertificate: renewable(certificate, key)}
	}
	listener, err := net.Listen("tcp", server.Addr)
	if err != nil {
		return err
	}
	slog.Info("listening", "address", listener.Addr().String())
	ended := make(chan error, 1)
	go func() {
		if certificate == "" {
			ended <- server.Serve(listener)
			return
		}
		ended <- server.ServeTLS(listener, "", "")
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = server.Shutdown(ctx)
	return errors.Join(err, ignoreClosed(<-ended))
}

// renewable reads the certificate for each connection, of which each question has one: it may
// have been renewed.
func renewable(certificate, key string) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		return &pair, err
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
