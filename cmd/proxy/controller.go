package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"google.golang.org/grpc"
)

// controller is where the proxy learns how to reach one: the folder of a mounted ConfigMap, and the file of
// the token that it shows.
type controller struct{ directory, tokenFile string }

// connect makes a connection by what the files say now, for one stream: kubelet replaces them.
func (c controller) connect() (*grpc.ClientConn, error) {
	authorities, err := os.ReadFile(filepath.Join(c.directory, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("reading whom to trust: %w", err)
	}
	trust, err := delta.Trust(authorities)
	if err != nil {
		return nil, fmt.Errorf("reading ca.crt: %w", err)
	}
	content, err := os.ReadFile(filepath.Join(c.directory, "address"))
	if err != nil {
		return nil, fmt.Errorf("reading where the controller is: %w", err)
	}
	address := strings.TrimSpace(string(content))
	if err := checkAddress(address); err != nil {
		return nil, fmt.Errorf("reading address: it %w", err)
	}
	// The controller is in the cluster: no HTTP proxy of the environment leads to it.
	return delta.Dial("passthrough:///"+address, grpc.WithNoProxy(),
		grpc.WithTransportCredentials(trust), grpc.WithPerRPCCredentials(delta.Token(c.tokenFile)))
}

// checkAddress returns an error where a text is not HOST:PORT.
func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = parsePort(port)
	}
	if err != nil {
		return fmt.Errorf("must be HOST:PORT, not %.100q", address)
	}
	return nil
}
