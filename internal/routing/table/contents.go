package table

import (
	"crypto/x509"
	"iter"
)

// Routes are all, in no order.
func (t *Table) Routes() iter.Seq[*Route] { return each(t.routes) }

// Listeners are all, in no order.
func (t *Table) Listeners() iter.Seq[*Listener] { return each(t.listeners) }

// Certificates are the leaves of all, by name and in no order: what may be shown of them. Nothing here gives
// a key.
func (t *Table) Certificates() iter.Seq2[string, *x509.Certificate] {
	return func(yield func(string, *x509.Certificate) bool) {
		for name, h := range t.certificates.entries.all() {
			if h.there && !yield(name, h.value.tls.Leaf) {
				return
			}
		}
	}
}

func each[V any](t trie[V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, value := range t.all() {
			if !yield(value) {
				return
			}
		}
	}
}
