package table

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// Asked is a request as people write it down.
type Asked struct {
	// Method is GET where it is empty, Scheme http; the other one is https.
	Method, Scheme string
	// Host may have a port, without which it is that of the scheme.
	Host string
	// Target is a path, with a query or without.
	Target string
	// Headers are lines of "Name: value".
	Headers []string
	// Local is the address at which the connection comes in, empty for one that no listener has for itself.
	Local string
}

// Request reads it. Its error says what a proxy would not take, or what nobody can ask for.
func (a Asked) Request() (*Request, error) {
	r := &Request{Method: cmp.Or(a.Method, "GET")}
	if !wire.IsToken(r.Method) {
		return nil, fmt.Errorf("%q is no method", a.Method)
	}
	for _, read := range []func(*Request) error{a.readLocal, a.readHost, a.readTarget, a.readHeaders} {
		if err := read(r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (a Asked) readLocal(r *Request) (err error) {
	switch a.Scheme {
	case "", "http":
		r.Port = 80
	case "https":
		r.Port, r.TLS = 443, true
	default:
		return fmt.Errorf("scheme %q is neither http nor https", a.Scheme)
	}
	if a.Local == "" {
		return nil
	}
	if r.Local, err = netip.ParseAddr(a.Local); err != nil {
		return fmt.Errorf("the address at which it comes in, %q, is none", a.Local)
	}
	return nil
}

// readHost takes it that the client asks for that name in the handshake, as browsers do: for no name where it is
// an address.
func (a Asked) readHost(r *Request) error {
	if strings.Contains(a.Host, "://") {
		return fmt.Errorf("%q is a URL: give its scheme, its host and its path each for itself", a.Host)
	}
	name, port := a.Host, ""
	if at := strings.LastIndexByte(a.Host, ':'); at > strings.LastIndexByte(a.Host, ']') {
		name, port = a.Host[:at], a.Host[at+1:]
	}
	// "a:" is as a proxy takes it: at the port of the scheme.
	if port != "" {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return fmt.Errorf("host %q: %q is no port", a.Host, port)
		}
		r.Port = uint16(number)
	}
	inBrackets := strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]")
	if name == "" || strings.ContainsAny(name, " \t\r\n,/?#@\\") || strings.Contains(name, ":") && !inBrackets {
		return fmt.Errorf("%q is no host", a.Host)
	}
	r.Host = strings.ToLower(name)
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); r.TLS && err != nil {
		r.ServerName = strings.TrimSuffix(r.Host, ".")
	}
	return nil
}

func (a Asked) readTarget(r *Request) (err error) {
	path, query, _ := strings.Cut(a.Target, "?")
	if r.Path, err = wire.NormalPath(path); err != nil {
		return fmt.Errorf("path %q: %w", path, err)
	}
	// What cannot be read of it has no parameters.
	parameters, _ := url.ParseQuery(query)
	r.Query = func(name string) (string, bool) {
		all := parameters[name]
		if len(all) == 0 {
			return "", false
		}
		return all[0], true
	}
	return nil
}

func (a Asked) readHeaders(r *Request) error {
	fields := map[string]string{"host": a.Host}
	for _, line := range a.Headers {
		name, value, found := strings.Cut(line, ":")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		if !found || name == "" || strings.ContainsAny(name, " \t") {
			return fmt.Errorf("header %q is not NAME: VALUE", line)
		}
		if name == "host" {
			// A request has one.
			if value != a.Host {
				return fmt.Errorf("header %q differs from the host, %q", line, a.Host)
			}
			continue
		}
		if before, several := fields[name]; several {
			value = before + "," + value
		}
		fields[name] = value
	}
	r.Header = func(name string) (string, bool) {
		value, found := fields[name]
		return value, found
	}
	return nil
}

// String is what is asked, in one line.
func (r *Request) String() string {
	scheme, usual := "http", uint16(80)
	if r.TLS {
		scheme, usual = "https", 443
	}
	port := ""
	if r.Port != usual {
		port = fmt.Sprintf(":%d", r.Port)
	}
	return r.Method + " " + scheme + "://" + r.Host + port + r.Path
}
