package routing

import (
	"fmt"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// normalPath is the normal form of a rule's path; its error names the path.
func normalPath(path string) (string, error) {
	normal, err := wire.NormalPath(path)
	if err != nil {
		return "", fmt.Errorf("path %q: %w", path, err)
	}
	return normal, nil
}

// prefixPath is the normal form of a prefix, whose trailing slash says nothing: it goes by element.
func prefixPath(path string) (string, error) {
	normal, err := normalPath(path)
	if err != nil || normal == "/" {
		return normal, err
	}
	return strings.TrimSuffix(normal, "/"), nil
}

// normalHost is a host name in lower case, without the dot of the root.
func normalHost(host string) string {
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isWildcard reports whether a host stands for more than one name.
func isWildcard(host string) bool { return strings.HasPrefix(host, "*.") }
