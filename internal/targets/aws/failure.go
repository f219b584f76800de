package aws

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

// Kind is what a failed call asks of the caller.
type Kind string

// Kinds of failures.
const (
	// Throttled: nothing was done; the same again later.
	Throttled Kind = "Throttled"
	// Invalid: nothing was done, for the sake of one target or more; the same without them.
	Invalid Kind = "Invalid"
	// Full: nothing was done, since a quota is reached.
	Full Kind = "Full"
	// NotFound: the group does not exist.
	NotFound Kind = "NotFound"
	// Denied: the credentials are refused, or do not permit the action.
	Denied Kind = "Denied"
	// Expired: the credentials have expired. New ones are asked for at the next call.
	Expired Kind = "Expired"
	// Unknown: anything else. It may have been carried out all the same, as when the
	// answer was lost: read before deciding anew.
	Unknown Kind = "Unknown"
)

// Failure is why a call was not carried out, or may not have been. Every error of a
// Client's methods is one, but for what Options.Before returned and for the end of
// the caller's context.
type Failure struct {
	Kind Kind
	// Action is the permission that the request needs; where Denied names another, as
	// when a role may not be assumed, it is that one.
	Action string
	// Code is AWS's, empty where AWS did not answer.
	Code, Message string
	// Targets are the invalid ones. It is empty where AWS does not name them.
	Targets []targets.Target
}

func (f *Failure) Error() string {
	if f.Code == "" {
		return fmt.Sprintf("%s: %s", f.Action, f.Message)
	}
	return fmt.Sprintf("%s: %s: %s", f.Action, f.Code, f.Message)
}

// kinds are the codes of errors, from the Errors sections of the API references of
// both versions of Elastic Load Balancing and of STS, and from "Common errors"
// there; AccessPointNotFound is an older name of LoadBalancerNotFound. Throttling
// has many codes, which the SDK lists.
var kinds = map[string]Kind{
	"DependencyThrottle": Throttled,

	"InvalidTarget":   Invalid,
	"InvalidInstance": Invalid,
	"ValidationError": Invalid,

	"TooManyTargets":                  Full,
	"TooManyRegistrationsForTargetId": Full,

	"TargetGroupNotFound":  NotFound,
	"LoadBalancerNotFound": NotFound,
	"AccessPointNotFound":  NotFound,

	"AccessDenied":                Denied,
	"AccessDeniedException":       Denied,
	"UnauthorizedOperation":       Denied,
	"NotAuthorized":               Denied,
	"AuthFailure":                 Denied,
	"IncompleteSignature":         Denied,
	"SignatureDoesNotMatch":       Denied,
	"InvalidClientTokenId":        Denied,
	"UnrecognizedClientException": Denied,
	"MissingAuthenticationToken":  Denied,
	"OptInRequired":               Denied,
	"InvalidIdentityToken":        Denied,
	"IDPRejectedClaim":            Denied,

	"ExpiredToken":          Expired,
	"ExpiredTokenException": Expired,
	"RequestExpired":        Expired,
}

func kindOf(code string) Kind {
	if kind, ok := kinds[code]; ok {
		return kind
	}
	if _, ok := retry.DefaultThrottleErrorCodes[code]; ok {
		return Throttled
	}
	return Unknown
}

// permission is how AWS names what it denies.
var permission = regexp.MustCompile(`to perform:? ([a-z0-9-]+:[A-Za-z]+)`)

// failure says what an error of the SDK means.
func (c *Client) failure(ctx context.Context, a Action, err error) error {
	f := &Failure{Kind: Unknown, Action: a.Permission()}
	// Where there were no credentials to be had, their request is the innermost.
	for operation := (*smithy.OperationError)(nil); errors.As(err, &operation); {
		err = operation.Err
		if operation.ServiceID == "STS" {
			f.Action = "sts:" + operation.OperationName
		}
	}
	answer, answered := errors.AsType[smithy.APIError](err)
	switch {
	case answered:
		f.Kind, f.Code, f.Message = kindOf(answer.ErrorCode()), answer.ErrorCode(), answer.ErrorMessage()
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", f.Action, context.Cause(ctx))
	default:
		f.Message = err.Error()
	}
	switch f.Kind {
	case Denied:
		if named := permission.FindStringSubmatch(f.Message); named != nil {
			f.Action = named[1]
		}
	case Expired:
		for _, cache := range c.credentials {
			cache.Invalidate()
		}
	}
	return f
}

// unreadable is an answer that lacks what it must hold. It is not taken for an empty
// one, which would say that nothing is registered.
func unreadable(a Action, what string) error {
	return &Failure{Kind: Unknown, Action: a.Permission(), Message: "the answer holds no " + what}
}

// naming adds to an Invalid failure which of the targets AWS names.
func naming(err error, asked []targets.Target) error {
	if f, ok := errors.AsType[*Failure](err); ok && f.Kind == Invalid {
		words := strings.FieldsFunc(f.Message, func(r rune) bool { return !strings.ContainsRune(idCharacters, r) })
		for i, word := range words {
			// A full stop or colon that ends the sentence is not part of the id.
			words[i] = strings.TrimRight(word, ".:-")
		}
		for _, t := range asked {
			if slices.Contains(words, t.ID) {
				f.Targets = append(f.Targets, t)
			}
		}
	}
	return err
}

// idCharacters are what instance ids and addresses are made of.
const idCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-"

// refusesTarget reports whether AWS refused a request because of a target in it.
func refusesTarget(err error) bool {
	f, ok := errors.AsType[*Failure](err)
	return ok && (f.Code == "InvalidTarget" || f.Code == "InvalidInstance")
}
