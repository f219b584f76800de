package proxy

import (
	"net/http"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// read takes from the request what leads to its route, in normal form, or says why it cannot.
func (x *exchange) read() (status int) {
	if x.client == nil {
		return http.StatusInternalServerError
	}
	if x.r.Method == http.MethodConnect {
		x.last = true
		return http.StatusMethodNotAllowed
	}
	path, rest, fine := splitTarget(x.r.RequestURI)
	host, valid := hostOf(x.r.Host)
	if !fine || !valid || !message.IsToken(x.r.Method) {
		// net/http does not look at the method of HTTP/2.
		return http.StatusBadRequest
	}
	path, err := wire.NormalPath(path)
	if err != nil {
		return http.StatusBadRequest
	}
	x.host, x.path, x.rest = x.r.Host, path, rest
	x.asked.Local, x.asked.Port = x.client.local, x.client.port
	x.asked.Host, x.asked.Method, x.asked.Path = host, x.r.Method, path
	if x.r.TLS != nil {
		x.asked.TLS, x.asked.ServerName = true, strings.ToLower(x.r.TLS.ServerName)
	}
	return 0
}

// splitTarget gives the path of a request's target, and its query with the "?". The target is in origin
// form or in absolute form (RFC 9112, 3.2), of which the host is known already. Of the path wire.NormalPath
// says whether it is one; the query may have no space, control byte or "#".
func splitTarget(target string) (path, rest string, fine bool) {
	if target == "" || target[0] != '/' {
		_, after, absolute := strings.Cut(target, "://")
		at := strings.IndexAny(after, "/?")
		switch {
		case !absolute:
			return "", "", false
		case at < 0:
			return "/", "", true
		case after[at] == '?':
			target = "/" + after[at:]
		default:
			target = after[at:]
		}
	}
	at := strings.IndexByte(target, '?')
	if at < 0 {
		return target, "", true
	}
	path, rest = target[:at], target[at:]
	for i := range len(rest) {
		if c := rest[i]; c <= ' ' || c == 0x7f || c == '#' {
			return "", "", false
		}
	}
	return path, rest, true
}

// hostOf is a host without its port, lower-case. It is not valid if it has bytes that no host has, or
// what follows it is no port.
func hostOf(host string) (name string, valid bool) {
	name = host
	port := ""
	switch end := strings.LastIndexByte(host, ']'); {
	case end > 0 && host[0] == '[':
		name, port = host[:end+1], host[end+1:]
	default:
		if at := strings.IndexByte(host, ':'); at >= 0 {
			name, port = host[:at], host[at:]
		}
	}
	if port != "" && (port[0] != ':' || strings.Trim(port[1:], "0123456789") != "") {
		return "", false
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(",/?#@\\", c) >= 0 {
			return "", false
		}
	}
	return strings.ToLower(name), true
}
