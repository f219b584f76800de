package delta

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
)

// connectTimeout is how long a controller may take for a connection, with its handshake.
const connectTimeout = 5 * time.Second

// Client is a proxy's end of a stream. It is for one goroutine.
type Client struct {
	stream grpc.ClientStream
	// Lifetime is after what the stream ends because its credentials do, counted from when it was opened; 0
	// is never.
	Lifetime time.Duration
	// IngressDaemonSet is that of the proxy, as namespace/name; empty where the controller does not say.
	IngressDaemonSet string
}

// Dial makes a connection, which is opened with the first stream. Options say at least how it is secured.
func Dial(target string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient(target, append([]grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{}), grpc.MaxCallRecvMsgSize(wire.MaxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepAlive, Timeout: keepAlive}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTimeout}),
	}, options...)...)
}

// Open opens a stream over a connection of Dial's, until the context ends, and waits until the controller
// knows whose it is. Nothing comes before a first request, which says what the proxy has.
func Open(ctx context.Context, c *grpc.ClientConn) (*Client, error) {
	stream, err := c.NewStream(ctx, &described, "/"+service+"/"+method)
	if err != nil {
		return nil, err
	}
	client := &Client{stream: stream}
	header, err := stream.Header()
	if err != nil {
		return nil, err
	}
	if header == nil {
		_, err := client.Receive()
		return nil, err
	}
	if said := header.Get(lifetimeKey); len(said) > 0 {
		milliseconds, err := strconv.ParseUint(said[0], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("the lifetime of the stream is said to be %.20q", said[0])
		}
		client.Lifetime = time.Duration(milliseconds) * time.Millisecond
	}
	if said := header.Get(setKey); len(said) > 0 {
		client.IngressDaemonSet = said[0]
	}
	return client, nil
}

// Receive waits for the next transaction. It is to be answered before the next one comes. What cannot be
// read is an error, after which the stream is of no use.
func (c *Client) Receive() (wire.Response, error) { return receive(c.stream, wire.DecodeResponse) }

// Send says what the proxy has, at first, and then what became of what it received. Where the stream has ended Receive says why.
func (c *Client) Send(r wire.Request) error {
	b, err := r.Encode()
	if err != nil {
		return err
	}
	if err := c.stream.SendMsg([][]byte{b}); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
