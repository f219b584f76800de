package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// maxProbeBody is how much of an answer is read, as by the kubelet.
const maxProbeBody = 10 << 10

var errManyRedirects = errors.New("stopped after 10 redirects")

// attempts does what the kubelet does for one run of a probe.
type attempts struct {
	http, grpc *http.Client
}

// longestHead bounds what a container answers with before its body, in bytes.
const longestHead = 64 << 10

func newAttempts() attempts {
	cleartext := new(http.Protocols)
	cleartext.SetUnencryptedHTTP2(true)
	return attempts{
		http: &http.Client{
			Transport: &http.Transport{
				// A probe asks whether the container answers, not who it is.
				TLSClientConfig:        &tls.Config{InsecureSkipVerify: true},
				DisableKeepAlives:      true,
				DisableCompression:     true,
				MaxResponseHeaderBytes: longestHead,
				ForceAttemptHTTP2:      true,
			},
			CheckRedirect: followLocally,
		},
		grpc: &http.Client{Transport: &http.Transport{Protocols: cleartext, DisableKeepAlives: true, MaxResponseHeaderBytes: longestHead}},
	}
}

// followLocally counts a redirect to another host as the answer.
func followLocally(req *http.Request, via []*http.Request) error {
	switch {
	case req.URL.Hostname() != via[0].URL.Hostname():
		return http.ErrUseLastResponse
	case len(via) >= 10:
		return errManyRedirects
	}
	return nil
}

// attempt returns an error where the probe fails. The address defaults to ip.
func (a attempts) attempt(ctx context.Context, ip string, probe *corev1.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, seconds(probe.TimeoutSeconds))
	defer cancel()
	switch {
	case probe.HTTPGet != nil:
		return a.httpGet(ctx, ip, probe.HTTPGet)
	case probe.TCPSocket != nil:
		return dial(ctx, address(probe.TCPSocket.Host, ip, probe.TCPSocket.Port.IntValue()))
	}
	return a.grpcCheck(ctx, address("", ip, int(probe.GRPC.Port)), probe.GRPC.Service)
}

func address(host, ip string, port int) string {
	if host == "" {
		host = ip
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

func dial(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func (a attempts) httpGet(ctx context.Context, ip string, action *corev1.HTTPGetAction) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, probeURL(ip, action).String(), nil)
	if err != nil {
		return err
	}
	req.Header = probeHeader(action)
	req.Host = req.Header.Get("Host")
	response, err := a.http.Do(req)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, maxProbeBody)); err != nil {
		return err
	}
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}

func probeURL(ip string, action *corev1.HTTPGetAction) *url.URL {
	u, err := url.Parse(action.Path)
	if err != nil {
		u = &url.URL{Path: action.Path}
	}
	u.Scheme = strings.ToLower(string(action.Scheme))
	if u.Scheme == "" {
		u.Scheme = "http"
	}
	u.Host = address(action.Host, ip, action.Port.IntValue())
	return u
}

func probeHeader(action *corev1.HTTPGetAction) http.Header {
	header := http.Header{}
	for _, h := range action.HTTPHeaders {
		header.Add(h.Name, h.Value)
	}
	if header.Values("User-Agent") == nil {
		header.Set("User-Agent", "kube-probe/ingress-daemonset-controller")
	}
	if header.Values("Accept") == nil {
		header.Set("Accept", "*/*")
	} else if header.Get("Accept") == "" {
		header.Del("Accept")
	}
	return header
}

// grpcCheck calls grpc.health.v1.Health/Check. The two messages are small enough
// to be written out: a gRPC library would double what the checker costs a node.
func (a attempts) grpcCheck(ctx context.Context, address string, service *string) error {
	var name string
	if service != nil {
		name = *service
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/grpc.health.v1.Health/Check", bytes.NewReader(grpcRequest(name)))
	if err != nil {
		return err
	}
	req.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
	response, err := a.grpc.Do(req)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxProbeBody))
	if err != nil {
		return err
	}
	if status := response.Trailer.Get("Grpc-Status"); response.StatusCode != http.StatusOK || status != "0" {
		return fmt.Errorf("status %d, gRPC status %q", response.StatusCode, status)
	}
	if !bytes.Equal(body, grpcServing) {
		return fmt.Errorf("not serving: % x", body)
	}
	return nil
}

// grpcServing is a message, uncompressed and 2 bytes long, with field 1 at 1 (SERVING).
var grpcServing = []byte{0, 0, 0, 0, 2, 0x08, 1}

// grpcRequest is a message with field 1 at the service's name.
func grpcRequest(service string) []byte {
	var message []byte
	if service != "" {
		message = append(binary.AppendUvarint([]byte{0x0a}, uint64(len(service))), service...)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}
