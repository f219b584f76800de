// Package aws emulates AWS: its server speaks the APIs of Elastic Load Balancing and STS over
// their wire protocol, and its load balancers really forward traffic. AWS's clients are tested
// against it; README.md tells what of it is documented by AWS, what is reported by its users
// and what is guessed.
//
// It shares nothing with the code that is tested against it. To read it, begin with
// cloud (the model), then api (the wire), access (who may do what), forward (the data
// plane).
package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/access"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/api"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/forward"
)

// Config is all there is to say to a server.
type Config struct {
	cloud.Spec
	Access  access.Config `json:"access"`
	Limits  api.Limits    `json:"limits,omitempty"` // of throttling, by class; default those of AWS
	Faults  []api.Fault   `json:"faults,omitempty"`
	Listen  Listen        `json:"listen"`
	HAProxy string        `json:"haproxy,omitempty"` // default /usr/sbin/haproxy
	Dir     string        `json:"dir,omitempty"`     // for HAProxy's files, which then stay; default a temporary one
}

// Listen are the addresses of the server itself: host:port, of which port 0 takes a free
// one, or unix: and a path, which is reached from other network namespaces too.
type Listen struct {
	API         string `json:"api"`                   // also answers GET /v1/credentials as the EKS Pod Identity agent does
	Admin       string `json:"admin"`                 // for tests alone
	Credentials string `json:"credentials,omitempty"` // the agent's alone
	Metadata    string `json:"metadata,omitempty"`    // the instance metadata service of the first instance
}

// Addresses are where a server listens.
type Addresses struct {
	API         string `json:"api"`
	Admin       string `json:"admin"`
	Credentials string `json:"credentials,omitempty"`
	Metadata    string `json:"metadata,omitempty"`
}

// CredentialsPath is the path of the EKS Pod Identity agent.
const CredentialsPath = "/v1/credentials"

// Server is a running server.
type Server struct {
	Addresses
	api     *api.Server
	plane   *forward.Plane
	servers []*http.Server
	cancel  context.CancelFunc
}

// Start starts a server. It ends with ctx, and Wait then returns.
func Start(ctx context.Context, config Config) (*Server, error) {
	return start(ctx, config, cloud.RealLags)
}

func start(ctx context.Context, config Config, lags map[cloud.Kind]cloud.Lags) (*Server, error) {
	c, err := cloud.New(config.Spec, lags, time.Now())
	if err != nil {
		return nil, err
	}
	config.Access.Account, config.Access.Region, config.Access.Seed = c.Account(), c.Region(), config.Seed
	who, err := access.New(config.Access)
	if err != nil {
		return nil, err
	}
	if err := config.Limits.Validate(); err != nil {
		return nil, err
	}
	faults := api.NewFaults(config.Seed)
	if err := faults.Set(config.Faults, time.Now()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	plane, err := forward.Start(ctx, c, forward.Options{HAProxy: cmp.Or(config.HAProxy, "/usr/sbin/haproxy"), Dir: config.Dir})
	if err != nil {
		cancel()
		return nil, err
	}
	s := &Server{api: api.NewServer(c, who, config.Limits, faults), plane: plane, cancel: cancel}
	if err := s.listen(config); err != nil {
		s.close()
		s.Stop()
		return nil, err
	}
	context.AfterFunc(ctx, s.close)
	return s, nil
}

// Wait waits until the server has ended.
func (s *Server) Wait() { <-s.plane.Done() }

// Stop ends the server and all flows through it. It may be called again.
func (s *Server) Stop() {
	s.cancel()
	s.Wait()
}

func (s *Server) listen(config Config) error {
	addresses := config.Listen
	credentials := http.NewServeMux()
	credentials.HandleFunc("GET "+CredentialsPath, s.api.PodIdentity)
	calls := http.NewServeMux()
	calls.HandleFunc("GET "+CredentialsPath, s.api.PodIdentity)
	calls.Handle("/", s.api)
	var errs [4]error
	s.API, errs[0] = s.serve(addresses.API, calls)
	s.Admin, errs[1] = s.serve(addresses.Admin, s.admin())
	if addresses.Credentials != "" {
		s.Credentials, errs[2] = s.serve(addresses.Credentials, credentials)
	}
	if addresses.Metadata != "" {
		m := &api.Metadata{Account: s.api.Cloud.Account(), Region: s.api.Cloud.Region()}
		if len(config.Instances) > 0 {
			m.Instance, m.Zone = config.Instances[0].ID, config.Instances[0].Zone
		}
		s.Metadata, errs[3] = s.serve(addresses.Metadata, m.Handler())
	}
	return errors.Join(errs[:]...)
}

func (s *Server) serve(address string, handler http.Handler) (string, error) {
	network, at := networkOf(cmp.Or(address, "127.0.0.1:0"))
	l, err := net.Listen(network, at)
	if err != nil {
		return "", fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	s.servers = append(s.servers, server)
	go server.Serve(l)
	if network == "unix" {
		return address, nil
	}
	return l.Addr().String(), nil
}

// networkOf is the network of an address, and the address in it.
func networkOf(address string) (network, at string) {
	if path, isPath := strings.CutPrefix(address, "unix:"); isPath {
		return "unix", path
	}
	return "tcp", address
}

func (s *Server) close() {
	for _, server := range s.servers {
		server.Close()
	}
}
