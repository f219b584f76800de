package wire

import (
	"fmt"
	"maps"
	"slices"
)

// MaxMessage bounds the bytes of a message on a stream, as they are written and as they are read.
const MaxMessage = 64 << 20

// TypeURL is that of all our resources: a response has one.
const TypeURL = "type.googleapis.com/ingressdaemonsets.mumoshu.github.io.routing.v1.Resource"

// Request is what a proxy says on a stream: that it is there, and what it made of a Response. It is
// what matters here of envoy.service.discovery.v3.DeltaDiscoveryRequest. All resources of the type are
// wanted: names are not subscribed to.
//
// Numbers of fields, here and of Response, are of github.com/envoyproxy/data-plane-api at 84e84367,
// envoy/service/discovery/v3/discovery.proto and envoy/config/core/v3/base.proto (Node); of
// google/rpc/status.proto and google/protobuf/any.proto.
type Request struct {
	// Node is the id of who asks.
	Node    string
	TypeURL string
	// Versions are those of the resources that a proxy has when its stream begins, by name.
	Versions map[string]string
	// Nonce is that of the Response to which this is the answer, empty in the first of a stream.
	Nonce string
	// Error is why something of it was refused, nil where all was taken.
	Error *Status
}

// Status is a google.rpc.Status. Its details are not read.
type Status struct {
	Code    int32
	Message string
}

// Response is what the controller says: what is new and what is gone. It is what matters here of
// envoy.service.discovery.v3.DeltaDiscoveryResponse.
type Response struct {
	// Position is system_version_info: where in its log the controller is.
	Position string
	TypeURL  string
	// Resources are new or changed, Removed are the names of those that are gone.
	Resources []Delivery
	Removed   []string
	Nonce     string
}

// Delivery is a resource on its way: its name (NameOf), version, and bytes as a google.protobuf.Any.
type Delivery struct {
	Name, Version, TypeURL string
	Value                  []byte
}

// Encode gives the message's bytes: the same content has the same bytes. It fails where a text is not
// UTF-8 or the message takes more than MaxMessage.
func (m Request) Encode() ([]byte, error) {
	c := &codec{}
	c.appendMessage(1, false, func(c *codec) { c.text(1, &m.Node) })
	c.text(2, &m.TypeURL)
	for _, name := range slices.Sorted(maps.Keys(m.Versions)) {
		c.appendMessage(5, true, func(c *codec) {
			c.appendText(1, name)
			c.appendText(2, m.Versions[name])
		})
	}
	c.text(6, &m.Nonce)
	if m.Error != nil {
		c.appendMessage(7, true, func(c *codec) {
			c.number(1, uint64(int64(m.Error.Code)), 0)
			c.text(2, &m.Error.Message)
		})
	}
	return c.encoded("request", 0)
}

// Encode gives the message's bytes, as Request.Encode does.
func (m Response) Encode() ([]byte, error) { return m.Append(nil) }

// Append appends the message's bytes to others, as Encode gives them.
func (m Response) Append(to []byte) ([]byte, error) {
	c := &codec{buf: slices.Grow(to, m.room())}
	c.text(1, &m.Position)
	for i := range m.Resources {
		c.appendMessage(2, true, m.Resources[i].append)
	}
	c.text(4, &m.TypeURL)
	c.text(5, &m.Nonce)
	for _, name := range m.Removed {
		c.appendText(6, name)
	}
	return c.encoded("response", len(to))
}

// room is at least what a message takes, and little more: it may have many megabytes.
func (m *Response) room() int {
	const tags = 32
	size := tags + len(m.Position) + len(m.TypeURL) + len(m.Nonce)
	for i := range m.Resources {
		d := &m.Resources[i]
		size += tags + len(d.Version) + len(d.TypeURL) + len(d.Value) + len(d.Name)
	}
	for _, name := range m.Removed {
		size += tags + len(name)
	}
	return size
}

func (d *Delivery) append(c *codec) {
	c.text(1, &d.Version)
	c.appendMessage(2, false, func(c *codec) {
		c.text(1, &d.TypeURL)
		c.bytes(2, &d.Value)
	})
	c.text(3, &d.Name)
}

// encoded are the bytes of a message, after those that were there before it.
func (c *codec) encoded(what string, before int) ([]byte, error) {
	if c.err != nil {
		return nil, fmt.Errorf("encode a %s: %w", what, c.err)
	}
	if size := len(c.buf) - before; size > MaxMessage {
		return nil, fmt.Errorf("a %s of %d bytes, more than %d", what, size, MaxMessage)
	}
	return c.buf, nil
}

// DecodeRequest reads a message as protobuf has it: fields in any order, of which the last of several
// counts, and those that are not known are skipped. Its error says why it cannot be read; it may have
// MaxMessage bytes.
func DecodeRequest(b []byte) (Request, error) {
	var m Request
	err := readEnvelope(b, func(f field) error {
		switch f.number {
		case 1:
			return f.message(func(f field) error {
				if f.number == 1 {
					return f.text(&m.Node)
				}
				return nil
			})
		case 2:
			return f.text(&m.TypeURL)
		case 5:
			if m.Versions == nil {
				m.Versions = map[string]string{}
			}
			return f.entry(m.Versions)
		case 6:
			return f.text(&m.Nonce)
		case 7:
			if m.Error == nil {
				m.Error = &Status{}
			}
			return f.message(m.Error.read)
		}
		return nil
	})
	if err != nil {
		return Request{}, fmt.Errorf("decode a request: %w", err)
	}
	return m, nil
}

func (s *Status) read(f field) error {
	switch f.number {
	case 1:
		return f.int32(&s.Code)
	case 2:
		return f.text(&s.Message)
	}
	return nil
}

// DecodeResponse reads a message as DecodeRequest does. Values of its resources are parts of b.
func DecodeResponse(b []byte) (Response, error) {
	var m Response
	err := readEnvelope(b, func(f field) error {
		switch f.number {
		case 1:
			return f.text(&m.Position)
		case 2:
			var d Delivery
			err := f.message(d.read)
			m.Resources = append(m.Resources, d)
			return err
		case 4:
			return f.text(&m.TypeURL)
		case 5:
			return f.text(&m.Nonce)
		case 6:
			var name string
			err := f.text(&name)
			m.Removed = append(m.Removed, name)
			return err
		}
		return nil
	})
	if err != nil {
		return Response{}, fmt.Errorf("decode a response: %w", err)
	}
	return m, nil
}

func (d *Delivery) read(f field) error {
	switch f.number {
	case 1:
		return f.text(&d.Version)
	case 2:
		return f.message(func(f field) error {
			switch f.number {
			case 1:
				return f.text(&d.TypeURL)
			case 2:
				return f.bytes(&d.Value)
			}
			return nil
		})
	case 3:
		return f.text(&d.Name)
	}
	return nil
}

func readEnvelope(b []byte, visit func(field) error) error {
	if len(b) > MaxMessage {
		return fmt.Errorf("it has %d bytes, more than %d", len(b), MaxMessage)
	}
	return eachField(b, visit)
}
