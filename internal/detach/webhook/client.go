// Package webhook asks a webhook to take a node out of a load balancer, or to put
// it back. The contract is docs/guides/webhook.md.
package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"time"

	contract "github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1/webhook"
)

const (
	// maxAnswer is how much of an answer is read, body and header each, in bytes.
	maxAnswer = 64 << 10
	// maxMessage is how much of a body is told, in bytes.
	maxMessage = 512
)

// Client asks one webhook. It may be used by several goroutines.
type Client struct {
	url, host string
	secret    []byte
	timeout   time.Duration
	// roots are who signs the receiver's certificate; they may be renewed.
	roots func() (*x509.CertPool, error)
}

// Answer is what a webhook answered.
type Answer struct {
	// Done says whether traffic to the node has stopped, or flows again.
	Done bool
	// RetryAfter is when to ask again, 1 s to 5 min; 0 where Done.
	RetryAfter time.Duration
	// Message is the start of the body, one line of at most 512 bytes; often empty.
	Message string
}

// New makes a client, or tells which option is wrong. It asks nothing yet.
func New(o Options) (*Client, error) {
	target, err := o.target()
	if err != nil {
		return nil, fmt.Errorf("webhook URL: %w", err)
	}
	if err := contract.CheckSecret(o.Secret); err != nil {
		return nil, fmt.Errorf("webhook %s: %w", target.Host, err)
	}
	timeout, err := o.timeout()
	if err != nil {
		return nil, fmt.Errorf("webhook %s: %w", target.Host, err)
	}
	if _, err := o.roots(); err != nil {
		return nil, fmt.Errorf("webhook %s: %w", target.Host, err)
	}
	return &Client{url: target.String(), host: target.Host, secret: slices.Clone(o.Secret), timeout: timeout, roots: o.roots}, nil
}

// transport goes through the proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name,
// as the cloud's client in the same process, kubectl and curl do. A connection is
// for one question: the next one goes to where the name points then, and closing it
// tells a receiver that nobody waits for its answer any more.
func transport(roots *x509.CertPool) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSClientConfig:        &tls.Config{RootCAs: roots},
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxAnswer,
	}
}

// Ask asks once and waits for the whole answer, at most the client's timeout. Status
// 200 is Done, 202 is not yet. All else is an error, redirects included, and may be
// asked again with the same ID: what it did is then not known.
func (c *Client) Ask(ctx context.Context, r Request) (Answer, error) {
	answer, err := c.ask(ctx, r)
	if err != nil {
		return Answer{}, fmt.Errorf("asking webhook %s to %s node %s: %w", c.host, r.Action, r.Node.Name, err)
	}
	return answer, nil
}

func (c *Client) ask(ctx context.Context, r Request) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	request, err := c.request(ctx, r)
	if err != nil {
		return Answer{}, err
	}
	roots, err := c.roots()
	if err != nil {
		return Answer{}, err
	}
	sender := &http.Client{
		Transport:     transport(roots),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := sender.Do(request)
	if err != nil {
		return Answer{}, withoutURL(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return Answer{}, fmt.Errorf("reading the answer: %w", err)
	}
	return judge(response, body)
}

// request is signed anew each time it is sent, since a signature expires.
func (c *Client) request(ctx context.Context, r Request) (*http.Request, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, withoutURL(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "ingress-daemonset-controller")
	request.Header.Set(contract.IdempotencyHeader, r.IdempotencyKey())
	request.Header.Set(contract.SignatureHeader, contract.Sign(c.secret, body, time.Now()))
	return request, nil
}

func judge(response *http.Response, body []byte) (Answer, error) {
	answer := Answer{Message: message(body)}
	switch {
	case response.StatusCode != http.StatusOK && response.StatusCode != http.StatusAccepted:
		return Answer{}, refusal(response, answer.Message)
	case isPage(response.Header):
		return Answer{}, fmt.Errorf("%s with a web page, which no receiver answers with: the URL leads elsewhere: %q", response.Status, answer.Message)
	case response.StatusCode == http.StatusOK:
		answer.Done = true
	default:
		answer.RetryAfter = retryAfter(response.Header, time.Now())
	}
	return answer, nil
}

// isPage reports whether the answer is for people: of a virtual host for names that are
// not known, of a login, of a load balancer that apologizes.
func isPage(header http.Header) bool {
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	return kind == "text/html"
}

func refusal(response *http.Response, message string) error {
	if to := response.Header.Get("Location"); to != "" && response.StatusCode/100 == 3 {
		return fmt.Errorf("it answered %s to %.200q, and redirects are not followed", response.Status, to)
	}
	if message == "" {
		return fmt.Errorf("it answered %s", response.Status)
	}
	return fmt.Errorf("it answered %s: %s", response.Status, message)
}

// withoutURL is an error of an http.Client in short, and without what a query holds.
func withoutURL(err error) error {
	if wrapped := (&url.Error{}); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
