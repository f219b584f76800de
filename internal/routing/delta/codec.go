// Package delta carries what package stream decides from a controller to its proxies: it has both ends of
// Envoy's incremental protocol (DeltaAggregatedResources) over gRPC.
//
// Its files, in the order in which to open them:
//
//   - codec.go: the method, and messages as the bytes that they are.
//   - server.go: Server, of the logs of all IngressDaemonSets; whom it lets in, and what it reports.
//   - strangers.go: the connections of who was not let in yet.
//   - serve.go: one stream of it.
//   - client.go: Client, the proxy's end of a stream.
//   - credentials.go: how each end knows the other.
//   - controllers.go: what replicas of the controller tell their leader.
//
// Envoy's messages are read and written by package wire, so that what was encoded once goes to all
// streams without a copy: gRPC is given the parts of a message.
package delta

import (
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

// The method, of envoy/service/discovery/v3/ads.proto (github.com/envoyproxy/data-plane-api at 84e84367).
const (
	service = "envoy.service.discovery.v3.AggregatedDiscoveryService"
	method  = "DeltaAggregatedResources"
)

// keepAlive is after what silence either end asks whether the other is there, and how long it waits for
// the answer.
const keepAlive = 10 * time.Second

// lifetimeKey is the header that says after how many milliseconds the credentials of a stream end, and so the
// stream; it is left out where they do not.
const lifetimeKey = "lifetime-milliseconds"

// setKey is the header that says of which IngressDaemonSet the proxy is, as namespace/name.
const setKey = "ingressdaemonset"

// described is the method without its handler.
var described = grpc.StreamDesc{StreamName: method, ServerStreams: true, ClientStreams: true}

// raw takes messages as parts and gives them as bytes.
type raw struct{}

// Name is that of protobuf, whose messages they are.
func (raw) Name() string { return "proto" }

// Marshal is given a [][]byte, which is not changed.
func (raw) Marshal(message any) (mem.BufferSlice, error) {
	parts, is := message.([][]byte)
	if !is {
		return nil, fmt.Errorf("a message is a %T", message)
	}
	out := make(mem.BufferSlice, 0, len(parts))
	for _, p := range parts {
		out = append(out, mem.SliceBuffer(p))
	}
	return out, nil
}

// Unmarshal is given a *[]byte, which gets a copy.
func (raw) Unmarshal(data mem.BufferSlice, message any) error {
	to, is := message.(*[]byte)
	if !is {
		return fmt.Errorf("a message is read into a %T", message)
	}
	*to = data.Materialize()
	return nil
}

// receive reads the next message of either end.
func receive[T any](s interface{ RecvMsg(any) error }, decode func([]byte) (T, error)) (message T, err error) {
	var b []byte
	if err := s.RecvMsg(&b); err != nil {
		return message, err
	}
	return decode(b)
}
