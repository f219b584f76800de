// Package message reads what requests and responses of HTTP/1.1 have in common: heads up to their empty line, fields,
// and bodies in their framings (RFC 9112). It is strict: what could be read in two ways is Malformed.
//
//   - field.go: a field, and the bytes that it may have.
//   - reader.go: what heads, lines and bodies are read from.
//   - body.go: a body, to the end of its trailer.
package message
