package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// kindNames are what names on a stream begin with.
var kindNames = [...]string{
	KindCertificate: "certificate",
	KindEndpoints:   "endpoints",
	KindBackend:     "backend",
	KindListener:    "listener",
	KindRoute:       "route",
}

// String is the kind in a name on a stream, and in what people read.
func (k Kind) String() string {
	if k == 0 || int(k) >= len(kindNames) {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return kindNames[k]
}

// Kind is which of its fields the resource is, 0 where it is none or several.
func (r Resource) Kind() Kind {
	var kind Kind
	for k, set := range [...]bool{
		KindCertificate: r.Certificate != nil,
		KindEndpoints:   r.Endpoints != nil,
		KindBackend:     r.Backend != nil,
		KindListener:    r.Listener != nil,
		KindRoute:       r.Route != nil,
	} {
		switch {
		case !set:
		case kind != 0:
			return 0
		default:
			kind = Kind(k)
		}
	}
	return kind
}

// NameOf is the name of a resource on a stream, which no resource of another kind has:
// "backend/shop/cheese:80" of the Backend "shop/cheese:80".
func NameOf(r Resource) string { return FullName(r.Kind(), r.Name) }

// FullName is the name on a stream of the resource of that kind and name.
func FullName(k Kind, name string) string { return k.String() + "/" + name }

// ParseName is NameOf read backward. The error wraps ErrUnknownKind where no kind that is known has
// such names.
func ParseName(full string) (k Kind, name string, err error) {
	prefix, name, found := strings.Cut(full, "/")
	if !found || name == "" {
		return 0, "", fmt.Errorf("%q is no name of a resource", full)
	}
	for k := KindCertificate; int(k) < len(kindNames); k++ {
		if kindNames[k] == prefix {
			return k, name, nil
		}
	}
	return 0, "", fmt.Errorf("%q: %w", full, ErrUnknownKind)
}

// Version is that of the resource that has these bytes: the first 16 bytes of their SHA-256, as hex.
func Version(encoded []byte) string {
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:16])
}
