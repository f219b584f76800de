// Package webhook is the contract between the controller and whoever takes nodes
// out of a load balancer for it: what the controller asks (Request), and how it
// signs the question (Sign, Verify). A receiver may import it; it needs nothing but
// the standard library. What a receiver answers is in docs/guides/webhook.md.
package webhook

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Headers of a request, beside Content-Type application/json.
const (
	// SignatureHeader holds what Sign returns.
	SignatureHeader = "Ingress-Daemonset-Signature"
	// IdempotencyHeader holds Request.IdempotencyKey.
	IdempotencyHeader = "Idempotency-Key"
)

// Action is what the node is to be.
type Action string

// Actions.
const (
	// Detach is to send the node nothing new and to let what is under way end.
	Detach Action = "detach"
	// Attach is to send the node traffic again.
	Attach Action = "attach"
)

// maxID bounds an ID, in bytes.
const maxID = 128

// Request is the JSON body of a POST. It is sent again, with the same ID and
// Action, until it is answered with status 200.
type Request struct {
	// ID is the same for all that is asked about one detachment: its Detach, and the
	// Attach that ends it. 1 to 128 visible ASCII characters.
	ID     string `json:"id"`
	Action Action `json:"action"`
	Node   Node   `json:"node"`
	// Reason is why, in words for people.
	Reason string `json:"reason,omitempty"`
	// Since is when the reason began to hold.
	Since time.Time `json:"since,omitzero"`
}

// Node is the Kubernetes Node that it is about.
type Node struct {
	Name string `json:"name"`
	// ProviderID is spec.providerID, such as aws:///eu-west-1a/i-0123456789abcdef0.
	ProviderID string            `json:"providerID,omitempty"`
	Addresses  []Address         `json:"addresses,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
}

// Address is one of status.addresses of a Node.
type Address struct {
	// Type is InternalIP, ExternalIP, Hostname, InternalDNS or ExternalDNS.
	Type    string `json:"type"`
	Address string `json:"address"`
}

// IdempotencyKey is the same for requests that ask the same.
func (r Request) IdempotencyKey() string { return r.ID + ":" + string(r.Action) }

// Validate tells what is missing or impossible in a request.
func (r Request) Validate() error {
	invisible := func(c rune) bool { return c <= ' ' || c > '~' }
	switch {
	case r.ID == "" || len(r.ID) > maxID || strings.ContainsFunc(r.ID, invisible):
		return fmt.Errorf("id %.150q: it must be 1 to %d visible ASCII characters", r.ID, maxID)
	case r.Action != Detach && r.Action != Attach:
		return fmt.Errorf("action %.30q: it must be %s or %s", r.Action, Detach, Attach)
	case r.Node.Name == "":
		return errors.New("node: it has no name")
	}
	return nil
}
