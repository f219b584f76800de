package wire

import (
	"errors"
	"fmt"
)

// MaxResource bounds the encoded bytes of a resource, as they are written and as they are read.
const MaxResource = 1 << 20

// ErrUnknownKind is that of a resource of a kind that this program does not know: another version's,
// to be refused alone.
var ErrUnknownKind = errors.New("the resource is of a kind that is not known")

// Encode gives the resource's canonical bytes: the same content has the same bytes. It fails where the
// resource has no name, is not of exactly one kind, has a text that is not UTF-8, or takes more than
// MaxResource.
//
// They are in protobuf's wire format. Each message has its fields in ascending order, and those of a
// value of zero not at all; a pointer that is not nil is there even when it is empty, and so is each
// element of a list. Numbers and flags are varints, all else has its length before it.
//
//	Resource     1 name  2 certificate  3 endpoints  4 backend  5 listener  6 route
//	Certificate  1 chain  2 key
//	Endpoints    1 all*
//	Endpoint     1 address  2 port  3 uid  4 zone  5 node  6 state
//	Backend      1 service  2 port  3 protocol  4 cookie  5 max fails  6 fail timeout
//	Listener     1 object  2 section  3 address  4 port  5 hostname  6 tls  7 certificates*
//	Route        1 object  2 rule  3 named  4 listeners*  5 hostnames*  6 one label  7 matches*
//	             8 filters*  9 backends*  10 fallback  11 timeout  12 backend timeout
//	Object       1 kind  2 namespace  3 name  4 created  5 generation
//	Match        1 path type  2 path  3 method  4 headers*  5 query*
//	NamedMatch   1 name  2 value  3 regex
//	Filter       1 kind  2 headers  3 url
//	HeaderFilter 1 set*  2 add*  3 remove*
//	Header       1 name  2 value
//	URLFilter    1 scheme  2 hostname  3 port  4 replace path  5 replace prefix  6 status
//	Share        1 backend  2 weight  3 status  4 filters*
//
// A number is never given to something else. A new field gets the next one, and a new kind too.
func Encode(r Resource) ([]byte, error) {
	if r.Name == "" {
		return nil, errors.New("a resource has no name")
	}
	if r.Kind() == 0 {
		return nil, fmt.Errorf("resource %q is not of one kind", r.Name)
	}
	c := &codec{}
	resourceFields(c, &r)
	if c.err != nil {
		return nil, fmt.Errorf("encode %s: %w", NameOf(r), c.err)
	}
	if len(c.buf) > MaxResource {
		return nil, fmt.Errorf("%s takes %d bytes, more than %d", NameOf(r), len(c.buf), MaxResource)
	}
	return c.buf, nil
}

// Decode reads what Encode wrote, in this version or another: fields that are not known are skipped.
// It keeps nothing of bytes; of a string all texts are part. All else that Encode does not write is an error: bytes that are cut off or
// more than MaxResource, fields out of order or twice, of another type, of zero or too large, varints
// that are longer than need be, texts that are not UTF-8. Where the resource is of no known kind the
// error wraps ErrUnknownKind.
func Decode[B readable](b B) (Resource, error) {
	if len(b) > MaxResource {
		return Resource{}, fmt.Errorf("a resource of %d bytes, more than %d", len(b), MaxResource)
	}
	c, r := &codec{reading: true}, Resource{}
	c.readMessage(string(b), func(c *codec) { resourceFields(c, &r) })
	switch {
	case c.err != nil:
		return Resource{}, fmt.Errorf("decode resource %q: %w", r.Name, c.err)
	case r.Name == "":
		return Resource{}, errors.New("a resource has no name")
	case r == Resource{Name: r.Name}:
		return Resource{}, fmt.Errorf("resource %q: %w", r.Name, ErrUnknownKind)
	case r.Kind() == 0:
		return Resource{}, fmt.Errorf("resource %q is of several kinds", r.Name)
	}
	return r, nil
}

func resourceFields(c *codec, r *Resource) {
	c.text(1, &r.Name)
	optional(c, 2, &r.Certificate, certificateFields)
	optional(c, 3, &r.Endpoints, endpointsFields)
	optional(c, 4, &r.Backend, backendFields)
	optional(c, 5, &r.Listener, listenerFields)
	optional(c, 6, &r.Route, routeFields)
}

func certificateFields(c *codec, m *Certificate) {
	c.bytes(1, &m.Chain)
	c.bytes(2, &m.Key)
}

func endpointsFields(c *codec, m *Endpoints) {
	messages(c, 1, &m.All, endpointFields)
}

func endpointFields(c *codec, m *Endpoint) {
	c.text(1, &m.Address)
	small(c, 2, &m.Port)
	c.text(3, &m.UID)
	c.text(4, &m.Zone)
	c.text(5, &m.Node)
	small(c, 6, &m.State)
}

func backendFields(c *codec, m *Backend) {
	message(c, 1, &m.Service, objectFields)
	small(c, 2, &m.Port)
	c.text(3, &m.Protocol)
	c.text(4, &m.Cookie)
	small(c, 5, &m.MaxFails)
	small(c, 6, &m.FailTimeout)
}

func listenerFields(c *codec, m *Listener) {
	message(c, 1, &m.Object, objectFields)
	c.text(2, &m.Section)
	c.text(3, &m.Address)
	small(c, 4, &m.Port)
	c.text(5, &m.Hostname)
	c.flag(6, &m.TLS)
	c.texts(7, &m.Certificates)
}

func routeFields(c *codec, m *Route) {
	message(c, 1, &m.Object, objectFields)
	small(c, 2, &m.Rule)
	c.text(3, &m.Named)
	c.texts(4, &m.Listeners)
	c.texts(5, &m.Hostnames)
	c.flag(6, &m.OneLabel)
	messages(c, 7, &m.Matches, matchFields)
	messages(c, 8, &m.Filters, filterFields)
	messages(c, 9, &m.Backends, shareFields)
	small(c, 10, &m.Fallback)
	small(c, 11, &m.Timeout)
	small(c, 12, &m.BackendTimeout)
}

func objectFields(c *codec, m *Object) {
	c.text(1, &m.Kind)
	c.text(2, &m.Namespace)
	c.text(3, &m.Name)
	c.signed(4, &m.Created)
	c.signed(5, &m.Generation)
}

func matchFields(c *codec, m *Match) {
	small(c, 1, &m.PathType)
	c.text(2, &m.Path)
	c.text(3, &m.Method)
	messages(c, 4, &m.Headers, namedFields)
	messages(c, 5, &m.Query, namedFields)
}

func namedFields(c *codec, m *NamedMatch) {
	c.text(1, &m.Name)
	c.text(2, &m.Value)
	c.flag(3, &m.Regex)
}

func filterFields(c *codec, m *Filter) {
	small(c, 1, &m.Kind)
	optional(c, 2, &m.Headers, headerFilterFields)
	optional(c, 3, &m.URL, urlFields)
}

func headerFilterFields(c *codec, m *HeaderFilter) {
	messages(c, 1, &m.Set, headerFields)
	messages(c, 2, &m.Add, headerFields)
	c.texts(3, &m.Remove)
}

func headerFields(c *codec, m *Header) {
	c.text(1, &m.Name)
	c.text(2, &m.Value)
}

func urlFields(c *codec, m *URLFilter) {
	c.text(1, &m.Scheme)
	c.text(2, &m.Hostname)
	small(c, 3, &m.Port)
	c.optionalText(4, &m.ReplacePath)
	c.optionalText(5, &m.ReplacePrefix)
	small(c, 6, &m.Status)
}

func shareFields(c *codec, m *Share) {
	c.text(1, &m.Backend)
	small(c, 2, &m.Weight)
	small(c, 3, &m.Status)
	messages(c, 4, &m.Filters, filterFields)
}
