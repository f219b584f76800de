package server

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// A connection on which nothing came for aliveAfter is probed by the kernel, which notices
// within aliveTimeout that the machine at the other end is gone. After pingAfter it is pinged
// by HTTP, which tells within pingTimeout that an API server hangs. That is longer, since all
// checkers would leave one that is slow for a moment, and come back at once; and seldom, since
// each ping of every node costs the API server processor time.
const (
	aliveAfter   = 5 * time.Second
	aliveTimeout = 5 * time.Second
	pingAfter    = 10 * time.Second
	pingTimeout  = 15 * time.Second
	dialTimeout  = 10 * time.Second
	// hangTime is for how long an API server that hangs may go unnoticed, and with it what
	// happens there.
	hangTime = pingAfter + pingTimeout + 5*time.Second
)

// newHTTPClient is what client-go would make, but with connections that notice
// soon that the other end is gone, and with the CA of the moment. A token is read
// from its file again every minute.
func newHTTPClient(config *rest.Config) (*http.Client, error) {
	settings, err := config.TransportConfig()
	if err != nil {
		return nil, err
	}
	r := &rotating{config: config}
	if r.transport, err = newTransport(config); err != nil {
		return nil, err
	}
	if r.ca, err = r.read(); err != nil {
		return nil, err
	}
	tripper, err := transport.HTTPWrappersForConfig(settings, r)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: tripper}, nil
}

func newTransport(config *rest.Config) (*http.Transport, error) {
	settings, err := config.TransportConfig()
	if err != nil {
		return nil, err
	}
	tls, err := transport.TLSConfigFor(settings)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: aliveAfter, Interval: aliveTimeout / 2, Count: 2},
	}
	proxy := config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	return &http.Transport{
		Proxy:               proxy,
		DialContext:         dialer.DialContext,
		TLSClientConfig:     tls,
		TLSHandshakeTimeout: dialTimeout,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}, nil
}

// rotating goes to an API server whose CA may be replaced in its file at any time.
type rotating struct {
	config *rest.Config

	mu        sync.Mutex
	ca        []byte
	transport *http.Transport
}

func (r *rotating) RoundTrip(req *http.Request) (*http.Response, error) {
	return r.current().RoundTrip(req)
}

// current looks into the file for each request: there are only a few in minutes. What
// cannot be read or used leaves the CA of before.
func (r *rotating) current() *http.Transport {
	r.mu.Lock()
	defer r.mu.Unlock()
	ca, err := r.read()
	if err != nil || bytes.Equal(ca, r.ca) {
		return r.transport
	}
	if renewed, err := newTransport(r.config); err == nil {
		r.transport.CloseIdleConnections()
		r.ca, r.transport = ca, renewed
	}
	return r.transport
}

// read is nil where the CA is in no file.
func (r *rotating) read() ([]byte, error) {
	if r.config.CAFile == "" || len(r.config.CAData) > 0 {
		return nil, nil
	}
	return os.ReadFile(r.config.CAFile)
}
