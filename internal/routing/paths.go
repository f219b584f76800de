package routing

import (
	"errors"
	"fmt"
	"strings"
)

// normalPath is a path as requests are matched by it: unreserved escapes are decoded and all others
// written with upper-case digits, bytes that may not stand in a path are escaped (RFC 3986, 3.3), and dot
// segments are removed, whether they were escaped or not. An escaped slash and empty segments stay.
// What is above the root, a NUL or a bad escape is an error.
func normalPath(path string) (string, error) {
	if !strings.HasPrefix(path, "/") {
		return "", fmt.Errorf("path %q does not begin with a slash", path)
	}
	escaped, err := normalEscapes(path)
	if err != nil {
		return "", fmt.Errorf("path %q: %w", path, err)
	}
	out, err := withoutDots(escaped)
	if err != nil {
		return "", fmt.Errorf("path %q: %w", path, err)
	}
	return out, nil
}

// prefixPath is the normal form of a prefix, whose trailing slash says nothing: it goes by element.
func prefixPath(path string) (string, error) {
	normal, err := normalPath(path)
	if err != nil || normal == "/" {
		return normal, err
	}
	return strings.TrimSuffix(normal, "/"), nil
}

func normalEscapes(path string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		b := path[i]
		if b == '%' {
			if i+2 >= len(path) || unhex(path[i+1]) < 0 || unhex(path[i+2]) < 0 {
				return "", fmt.Errorf("bad escape at %d", i)
			}
			b = byte(unhex(path[i+1])<<4 | unhex(path[i+2]))
			i += 2
			if !isUnreserved(b) {
				escape(&out, b)
				continue
			}
		}
		if b == 0 {
			return "", errors.New("has a NUL")
		}
		if isUnreserved(b) || strings.IndexByte("/!$&'()*+,;=:@", b) >= 0 {
			out.WriteByte(b)
		} else {
			escape(&out, b)
		}
	}
	if strings.Contains(out.String(), "%00") {
		return "", errors.New("has a NUL")
	}
	return out.String(), nil
}

func escape(out *strings.Builder, b byte) {
	const digits = "0123456789ABCDEF"
	out.WriteByte('%')
	out.WriteByte(digits[b>>4])
	out.WriteByte(digits[b&15])
}

// unhex is the value of a hexadecimal digit, -1 for what is none.
func unhex(b byte) int {
	switch {
	case '0' <= b && b <= '9':
		return int(b - '0')
	case 'a' <= b|0x20 && b|0x20 <= 'f':
		return int(b|0x20-'a') + 10
	}
	return -1
}

// isUnreserved is by RFC 3986, 2.3.
func isUnreserved(b byte) bool {
	return 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9' || b == '-' || b == '.' || b == '_' || b == '~'
}

// withoutDots removes dot segments (RFC 3986, 5.2.4); above the root there is nothing.
func withoutDots(path string) (string, error) {
	segments := strings.Split(path[1:], "/")
	var out []string
	for i, s := range segments {
		last := i == len(segments)-1
		switch s {
		case ".":
		case "..":
			if len(out) == 0 {
				return "", errors.New("leads above the root")
			}
			out = out[:len(out)-1]
		default:
			out = append(out, s)
			continue
		}
		if last {
			out = append(out, "")
		}
	}
	return "/" + strings.Join(out, "/"), nil
}

// normalHost is a host name in lower case, without the dot of the root.
func normalHost(host string) string {
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isWildcard is whether a host stands for more than one name.
func isWildcard(host string) bool { return strings.HasPrefix(host, "*.") }
