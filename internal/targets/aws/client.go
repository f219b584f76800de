// Package aws is the client of Elastic Load Balancing, with which what package targets decides is
// carried out. It is thin: one method is one thing to do, and nothing is decided, retried or
// waited for. Begin with Client; actions.go lists every request that it can send.
package aws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"
)

const (
	defaultAttributesFor = 5 * time.Minute
	defaultTimeout       = 30 * time.Second
	defaultSession       = "ingress-daemonset-controller"

	// renewBefore is how long before their end credentials are renewed, so that none
	// expire on their way.
	renewBefore = 10 * time.Second
)

// Options say where the load balancers are, and on whose behalf they are asked.
type Options struct {
	// Region is the load balancers'. Empty is AWS_REGION, that of the shared
	// configuration, or that of the instance by its metadata.
	Region string
	// Endpoint is the base URL of both, Elastic Load Balancing and STS. Empty is AWS's
	// own for the region, or where they differ what the SDK reads from
	// AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING, AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2
	// and AWS_ENDPOINT_URL_STS.
	Endpoint string
	// Role is assumed with the credentials that are found. Without an ARN they are used
	// as they are.
	Role Role
	// Before is called before every single request to Elastic Load Balancing, each page
	// and each chunk being one; its error is returned as it is, and nothing is sent.
	// This is the place for a limit of the rate, and for a last look at whether the request is
	// still meant: credentials, which may take long, are there by then. Requests for those are
	// not counted: they are few, and AWS limits them apart.
	Before func(context.Context, Call) error
	// AttributesFor is how long attributes of groups and load balancers are believed. 0 is
	// five minutes, less than that is not at all.
	AttributesFor time.Duration
	// Timeout is of one request and its answer; what takes longer fails as Unknown.
	// 0 is 30 seconds. The context's deadline holds beside it.
	Timeout time.Duration
}

// Role is an IAM role to assume.
type Role struct {
	ARN string
	// ExternalID is what the role's trust policy may ask for.
	ExternalID string
	// Session is the name under which calls appear in CloudTrail. Empty is
	// ingress-daemonset-controller.
	Session string
}

// Client speaks to Elastic Load Balancing in one region as one role. It may be used
// from several goroutines at once.
//
// It sends each request once. Retries are the caller's, who knows what else waits:
// were they made here as well, throttling would multiply what is sent. Only the
// requests for credentials are retried by the SDK.
type Client struct {
	// base is how AWS is reached, with the credentials that roles are assumed with, and
	// attributesFor how long attributes are believed.
	base          sdk.Config
	attributesFor time.Duration

	v2      *elasticloadbalancingv2.Client
	classic *elasticloadbalancing.Client
	// credentials are to be asked for anew when AWS says that they have expired.
	credentials []*sdk.CredentialsCache

	region     string
	attributes *memory
}

// Region is where the load balancers are.
func (c *Client) Region() string { return c.region }

// New finds credentials as every AWS SDK does: environment, web identity (IRSA),
// shared configuration, container endpoint (EKS pod identity), instance role. It
// asks for none yet; whether they suffice shows at the first call.
func New(ctx context.Context, o Options) (*Client, error) {
	cfg, err := load(ctx, o)
	if err != nil {
		return nil, err
	}
	cfg.HTTPClient = keeper{cfg.HTTPClient}
	return (&Client{base: cfg, attributesFor: o.AttributesFor}).As(o.Role, o.Before), nil
}

// As is a client that acts as a role, or as the credentials that were found where it has no
// ARN. It has these and its connections in common with c, so that it leaves nothing behind
// where it is not used any more. before is as in Options.
func (c *Client) As(role Role, before func(context.Context, Call) error) *Client {
	cfg := c.base.Copy()
	c = &Client{base: c.base, attributesFor: c.attributesFor, region: cfg.Region, attributes: newMemory(c.attributesFor)}
	c.holdCredentials(cfg.Credentials)
	if role.ARN != "" {
		cfg.Credentials = assume(cfg, role)
		c.holdCredentials(cfg.Credentials)
	}
	c.v2 = elasticloadbalancingv2.NewFromConfig(cfg, func(o *elasticloadbalancingv2.Options) {
		o.Retryer, o.HTTPClient = sdk.NopRetryer{}, sender{o.HTTPClient, before}
	})
	c.classic = elasticloadbalancing.NewFromConfig(cfg, func(o *elasticloadbalancing.Options) {
		o.Retryer, o.HTTPClient = sdk.NopRetryer{}, sender{o.HTTPClient, before}
	})
	return c
}

func load(ctx context.Context, o Options) (sdk.Config, error) {
	timeout := o.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	options := []func(*config.LoadOptions) error{
		// Buildable, since the SDK adds AWS_CA_BUNDLE to it.
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(timeout)),
		// It would write to standard error beside what is returned.
		config.WithLogger(logging.Nop{}),
		config.WithCredentialsCacheOptions(renewEarly),
	}
	if o.Region != "" {
		options = append(options, config.WithRegion(o.Region))
	}
	if o.Endpoint != "" {
		options = append(options, config.WithBaseEndpoint(o.Endpoint))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return cfg, fmt.Errorf("reading the AWS configuration: %w", err)
	}
	if cfg.Region != "" {
		return cfg, nil
	}
	if cfg, err = config.LoadDefaultConfig(ctx, append(options, config.WithEC2IMDSRegion())...); err != nil {
		return cfg, fmt.Errorf("no AWS region: set --aws-region, or AWS_REGION; the metadata service of the instance does not tell it: %w", err)
	}
	return cfg, nil
}

func renewEarly(o *sdk.CredentialsCacheOptions) { o.ExpiryWindow = renewBefore }

// assume are the credentials of a role.
func assume(cfg sdk.Config, role Role) sdk.CredentialsProvider {
	provider := stscreds.NewAssumeRoleProvider(sts.NewFromConfig(cfg), role.ARN, func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = role.Session
		if o.RoleSessionName == "" {
			o.RoleSessionName = defaultSession
		}
		if role.ExternalID != "" {
			o.ExternalID = &role.ExternalID
		}
	})
	return sdk.NewCredentialsCache(provider, renewEarly)
}

func (c *Client) holdCredentials(p sdk.CredentialsProvider) {
	if cache, ok := p.(*sdk.CredentialsCache); ok {
		c.credentials = append(c.credentials, cache)
	}
}

// callKey marks a context with the Call that its request is.
type callKey struct{}

// held is what Before returned.
type held struct{ error }

// sender asks Before right before a request is sent.
type sender struct {
	client elasticloadbalancingv2.HTTPClient
	before func(context.Context, Call) error
}

func (s sender) Do(r *http.Request) (*http.Response, error) {
	if call, of := r.Context().Value(callKey{}).(Call); of && s.before != nil {
		if err := s.before(r.Context(), call); err != nil {
			return nil, held{err}
		}
	}
	return s.client.Do(r)
}

// keeper keeps connections, and the answers that come on them. The SDK closes a request's
// body as soon as the answer begins, while net/http may still look whether more of it
// follows. The body's WriteTo then returns io.EOF, which is an error from WriteTo though not
// from Read (smithy-go v1.28.8, transport/http/internal/io), so net/http gives the connection
// up, also in the middle of a large answer. Here the body has no WriteTo.
type keeper struct{ sdk.HTTPClient }

func (k keeper) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return k.HTTPClient.Do(r)
}

// call sends one request. All that the client asks of Elastic Load Balancing goes
// through here.
func call[In, Out, Option any](
	ctx context.Context, c *Client, a Action, group string,
	send func(context.Context, *In, ...func(*Option)) (*Out, error), in *In,
) (*Out, error) {
	out, err := send(context.WithValue(ctx, callKey{}, Call{Class: a.Class, Action: a.Name, Group: group}), in)
	if before, ok := errors.AsType[held](err); ok {
		return nil, before.error
	}
	if err != nil {
		return nil, c.failure(ctx, a, err)
	}
	return out, nil
}
