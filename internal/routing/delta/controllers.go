package delta

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// The method by which a replica tells the leader of the streams that it serves, in messages of which this package
// knows nothing.
const (
	controllers = "ingressdaemonsets.mumoshu.github.io.Controllers"
	tellMethod  = "Tell"
)

var telling = grpc.StreamDesc{StreamName: tellMethod, ServerStreams: true, ClientStreams: true}

// heard hands over what another replica tells, until its stream ends. Who it is its certificate says: proxies have
// none.
func (s *Server) heard(g grpc.ServerStream) error {
	if err := s.isController(g.Context()); err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	s.strangers.letIn(g.Context())
	replica := s.streams.Add(1)
	defer s.options.Heard(replica, nil)
	for {
		message, err := receive(g, func(b []byte) ([]byte, error) { return b, nil })
		if err != nil {
			return err
		}
		s.options.Heard(replica, message)
	}
}

// isController is an error unless who opened a stream has a certificate of a controller.
func (s *Server) isController(ctx context.Context) error {
	on, is := peer.FromContext(ctx)
	if !is {
		return errors.New("it is not known who asks")
	}
	secured, is := on.AuthInfo.(credentials.TLSInfo)
	if !is || len(secured.State.PeerCertificates) == 0 {
		return errors.New("controllers have a certificate")
	}
	return verify(secured.State.PeerCertificates[0], s.options.Trusted(), x509.ExtKeyUsageAny)
}

// verify is an error unless a certificate is a controller's, by these authorities, as PEM.
func verify(c *x509.Certificate, authorities []byte, usage x509.ExtKeyUsage) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authorities)
	_, err := c.Verify(x509.VerifyOptions{Roots: pool, DNSName: ServerName, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}

// Introduce is a controller's that asks another: it shows its certificate, and who answers must have one of the same
// authorities, which are asked for at each handshake, as PEM.
func Introduce(certificate func() (*tls.Certificate, error), trusted func() []byte) credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate() },
		ServerName:           ServerName, MinVersion: tls.VersionTLS13,
		// It is verified below, by authorities that change.
		InsecureSkipVerify: true,
		VerifyConnection: func(c tls.ConnectionState) error {
			return verify(c.PeerCertificates[0], trusted(), x509.ExtKeyUsageServerAuth)
		},
	})
}

// Tell opens a stream to the leader over a connection of Dial's. It ends with the context, or when ended has why.
func Tell(ctx context.Context, c *grpc.ClientConn) (send func([]byte) error, ended <-chan error, err error) {
	stream, err := c.NewStream(ctx, &telling, "/"+controllers+"/"+tellMethod)
	if err != nil {
		return nil, nil, err
	}
	over := make(chan error, 1)
	go func() {
		var b []byte
		over <- stream.RecvMsg(&b)
	}()
	return func(message []byte) error { return stream.SendMsg([][]byte{message}) }, over, nil
}
