package delta

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
)

// connectTimeout is how long a controller may take for a connection, with its handshake.
const connectTimeout = 5 * time.Second

// Client is a proxy's end of a stream. It is for one goroutine.
type Client struct{ stream grpc.ClientStream }

// Dial makes a connection, which is opened with the first stream. Options say at least how it is secured.
func Dial(target string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient(target, append([]grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{}), grpc.MaxCallRecvMsgSize(wire.MaxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepAlive, Timeout: keepAlive}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTimeout}),
	}, options...)...)
}

// Subscribe opens a stream over a connection of Dial's, until the context ends, and asks for all that its
// class is told but for what the first request says that the proxy has.
func Subscribe(ctx context.Context, c *grpc.ClientConn, first wire.Request) (*Client, error) {
	stream, err := c.NewStream(ctx, &described, "/"+service+"/"+method)
	if err != nil {
		return nil, err
	}
	client := &Client{stream}
	return client, client.Answer(first)
}

// Receive waits for the next transaction. It is to be answered before the next one comes. What cannot be
// read is an error, after which the stream is of no use.
func (c *Client) Receive() (wire.Response, error) { return receive(c.stream, wire.DecodeResponse) }

// Answer says what became of it. Where the stream has ended Receive says why.
func (c *Client) Answer(r wire.Request) error {
	b, err := r.Encode()
	if err != nil {
		return err
	}
	if err := c.stream.SendMsg([][]byte{b}); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
