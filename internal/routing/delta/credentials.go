package delta

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
)

// ServerName is what the certificates of controllers are for. Proxies know addresses only, which change.
const ServerName = "stream.ingressdaemonsets.mumoshu.github.io"

// Trust is a proxy's: a controller is who has a certificate for ServerName of one of these authorities, as
// PEM. No token is sent to anybody else.
func Trust(authorities []byte) (credentials.TransportCredentials, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, errors.New("there is no certificate of an authority")
	}
	return credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: ServerName, MinVersion: tls.VersionTLS13}), nil
}

// Present is a controller's: its certificate, which is asked for at each handshake.
func Present(certificate func() (*tls.Certificate, error)) credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() },
		MinVersion:     tls.VersionTLS13,
		// Other controllers have one. It is verified where they ask.
		ClientAuth: tls.RequestClientCert,
	})
}

// Token is a proxy's: the file of its token, which is read for each stream, because kubelet replaces it.
type Token string

// GetRequestMetadata is of credentials.PerRPCCredentials.
func (t Token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	b, err := os.ReadFile(string(t))
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": bearer + strings.TrimSpace(string(b))}, nil
}

// RequireTransportSecurity is of credentials.PerRPCCredentials: a token is not shown to the network.
func (Token) RequireTransportSecurity() bool { return true }

const bearer = "Bearer "

// TokenOf is a controller's: the token with which a stream was opened, empty for none.
func TokenOf(ctx context.Context) string {
	headers, _ := metadata.FromIncomingContext(ctx)
	for _, h := range headers.Get("authorization") {
		if token, is := strings.CutPrefix(h, bearer); is {
			return token
		}
	}
	return ""
}
