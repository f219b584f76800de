package analysis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"sigs.k8s.io/yaml"
)

// provider is a Prometheus that the operator names, and how it is asked. Checks know its
// name alone.
type provider struct {
	Name string `json:"name"`
	// Address is a URL of http or https, with a path where there is one before /api/v1.
	Address string `json:"address"`
	// BearerTokenFile holds a token; blanks around it do not count.
	BearerTokenFile string     `json:"bearerTokenFile,omitempty"`
	BasicAuth       *basicAuth `json:"basicAuth,omitempty"`
	// CAFile holds who signs its certificate, PEM; the system's where it is empty.
	CAFile string `json:"caFile,omitempty"`
	// Headers are sent beside, such as X-Scope-OrgID.
	Headers map[string]string `json:"headers,omitempty"`
}

type basicAuth struct {
	Username     string `json:"username"`
	PasswordFile string `json:"passwordFile"`
}

// CheckProviders tells what is wrong with a file of providers.
func CheckProviders(file string) error {
	_, err := readProviders(file)
	return err
}

func readProviders(file string) ([]provider, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseProviders(content)
}

func parseProviders(content []byte) ([]provider, error) {
	var read struct {
		Providers []provider `json:"providers"`
	}
	if err := yaml.UnmarshalStrict(content, &read); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, p := range read.Providers {
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("provider %q: %w", p.Name, err)
		}
		if names[p.Name] {
			return nil, fmt.Errorf("provider %q: it is there twice", p.Name)
		}
		names[p.Name] = true
	}
	return read.Providers, nil
}

func (p *provider) check() error {
	at, err := url.Parse(p.Address)
	switch {
	case p.Name == "":
		return errors.New("it has no name")
	case err != nil || at.Hostname() == "" || at.Scheme != "http" && at.Scheme != "https":
		return errors.New("its address must be a URL that begins with http:// or https://")
	case at.User != nil:
		return errors.New("its address holds a user: use basicAuth")
	case p.BasicAuth != nil && p.BearerTokenFile != "":
		return errors.New("it has both basicAuth and bearerTokenFile")
	case p.BasicAuth != nil && (p.BasicAuth.Username == "" || p.BasicAuth.PasswordFile == ""):
		return errors.New("its basicAuth needs username and passwordFile")
	}
	return nil
}

// provider reads the file anew: what it says, and what it names, may be renewed at any time.
func (m *Measurer) provider(name string) (*provider, error) {
	if m.ProvidersFile == "" {
		return nil, fmt.Errorf("there is no provider %s: the controller runs without --analysis-providers", name)
	}
	all, err := readProviders(m.ProvidersFile)
	if err != nil {
		return nil, errors.New("the operator's file of providers cannot be read")
	}
	i := slices.IndexFunc(all, func(p provider) bool { return p.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no provider %s in the operator's file", name)
	}
	return &all[i], nil
}

// client asks as the operator wants it asked, wherever that is.
func (p *provider) client() (*http.Client, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if p.CAFile != "" {
		content, err := os.ReadFile(p.CAFile)
		pool := x509.NewCertPool()
		if err != nil || !pool.AppendCertsFromPEM(content) {
			return nil, errors.New("its caFile cannot be read")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	header := http.Header{}
	for key, value := range p.Headers {
		header.Set(key, value)
	}
	switch {
	case p.BearerTokenFile != "":
		token, err := os.ReadFile(p.BearerTokenFile)
		if err != nil {
			return nil, errors.New("its bearerTokenFile cannot be read")
		}
		header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	case p.BasicAuth != nil:
		password, err := os.ReadFile(p.BasicAuth.PasswordFile)
		if err != nil {
			return nil, errors.New("its passwordFile cannot be read")
		}
		request := http.Request{Header: header}
		request.SetBasicAuth(p.BasicAuth.Username, strings.TrimRight(string(password), "\r\n"))
	}
	c := bounded(transport)
	c.Transport = headed{c.Transport, header}
	return c, nil
}

// headed sends headers with each request.
type headed struct {
	http.RoundTripper
	header http.Header
}

func (h headed) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	for key, values := range h.header {
		request.Header[key] = values
	}
	if host := h.header.Get("Host"); host != "" {
		request.Host = host
	}
	return h.RoundTripper.RoundTrip(request)
}

// longestQuote of what a provider says of a query, in bytes.
const longestQuote = 200

// statusOnly is what the client says where an answer has a status and no more.
var statusOnly = regexp.MustCompile(`^(client|server) error: [0-9]{3}$|^bad response code [0-9]{3}$`)

// told is an error of a provider as anybody may read it: without its address, and of what
// it says only what it says of the query.
func (p *provider) told(err error) error {
	why := "it cannot be reached"
	said, isAnswer := errors.AsType[*prometheus.Error](err)
	_, unnamed := errors.AsType[*net.DNSError](err)
	_, uncertified := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case isAnswer && (said.Type == prometheus.ErrBadData || statusOnly.MatchString(said.Msg)):
		why = p.redacted(fmt.Sprintf("%s: %s", said.Type, said.Msg))
	case isAnswer:
		why = "it answers " + p.redacted(string(said.Type))
	case unnamed:
		why = "its name is not known"
	case uncertified:
		why = "its certificate is not trusted"
	case errors.Is(err, errTooLong):
		why = errTooLong.Error()
	}
	return fmt.Errorf("provider %s: %s", p.Name, why)
}

// redacted is a text without the provider's address, and short.
func (p *provider) redacted(text string) string {
	at, err := url.Parse(p.Address)
	if err != nil {
		return ""
	}
	text = strings.NewReplacer(p.Address, "...", at.Host, "...", at.Hostname(), "...").Replace(text)
	if len(text) > longestQuote {
		text = strings.ToValidUTF8(text[:longestQuote], "") + "..."
	}
	return text
}
