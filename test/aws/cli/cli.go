// Package cli imitates the AWS CLI: it takes a command line apart by the types of AWS's own SDK, makes the
// call, and prints what --query asks for. So a document's commands can be run where that program is not,
// and what is misspelt in one is refused, as there.
//
// It knows elbv2 and sts. To read it, begin here, then arguments.go (what a call is asked), query.go (what
// of the answer is shown).
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
)

// Name is what the program is called.
const Name = "aws"

// clients are the services that can be spoken to, by what the CLI calls them.
var clients = map[string]func(sdk.Config) any{
	"elbv2": func(c sdk.Config) any { return elbv2.NewFromConfig(c) },
	"sts":   func(c sdk.Config) any { return sts.NewFromConfig(c) },
}

// Run runs a command line, without the name of the program. Where the service is, and who asks, it takes
// from the environment, as every program with AWS's SDK does. An error is that the command line is none of the
// CLI's, or of a service that is not imitated, or that the call failed.
func Run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) < 2 {
		return fmt.Errorf("%s needs a service and an operation", Name)
	}
	service, operation, rest := args[0], args[1], args[2:]
	newClient, known := clients[service]
	if !known {
		return fmt.Errorf("%s %s is not imitated", Name, service)
	}
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	if operation == "wait" && len(rest) > 0 {
		operation, rest = rest[0], rest[1:]
		return wait(ctx, newClient(settings), operation, rest)
	}
	shown, rest, err := takeShown(rest)
	if err != nil {
		return err
	}
	answer, err := call(ctx, newClient(settings), operation, rest)
	if err != nil {
		return fmt.Errorf("%s %s: %w", service, operation, err)
	}
	return shown.print(answer, out)
}

// call makes a call of an operation, such as describe-target-health.
func call(ctx context.Context, client any, operation string, args []string) (any, error) {
	method := reflect.ValueOf(client).MethodByName(camel(operation))
	if !method.IsValid() || method.Type().NumIn() != 3 {
		return nil, fmt.Errorf("there is no such operation")
	}
	input := reflect.New(method.Type().In(1).Elem())
	if err := fill(input.Elem(), args); err != nil {
		return nil, err
	}
	results := method.Call([]reflect.Value{reflect.ValueOf(ctx), input})
	if err, failed := results[1].Interface().(error); failed {
		return nil, err
	}
	data, err := json.Marshal(results[0].Interface())
	if err != nil {
		return nil, err
	}
	var answer map[string]any
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, err
	}
	delete(answer, "ResultMetadata")
	return answer, nil
}

// waits are what can be waited for: the operation that tells, and the query whose values must all be one, or
// the error that the operation is to come to.
var waits = map[string]struct{ operation, query, value, fails string }{
	"load-balancer-available": {"describe-load-balancers", "LoadBalancers[].State.Code", "active", ""},
	"load-balancers-deleted":  {"describe-load-balancers", "LoadBalancers[].State.Code", "", "LoadBalancerNotFound"},
	"target-in-service":       {"describe-target-health", "TargetHealthDescriptions[].TargetHealth.State", "healthy", ""},
}

// longestWait is after how long the CLI gives up, which looks 40 times, every 15 s.
const longestWait = 10 * time.Minute

// wait waits for longestWait at most.
func wait(ctx context.Context, client any, what string, args []string) error {
	w, known := waits[what]
	if !known {
		return fmt.Errorf("%s wait %s is not imitated", Name, what)
	}
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	for {
		answer, err := call(ctx, client, w.operation, args)
		if refused, ok := errors.AsType[smithy.APIError](err); ok && refused.ErrorCode() == w.fails {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s wait %s: %w", Name, what, err)
		}
		values, err := query(answer, w.query)
		if err != nil {
			return err
		}
		if all(values, w.value) {
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("%s wait %s: %w; last seen: %v", Name, what, err, values)
		}
	}
}

func all(values any, want string) bool {
	list, _ := values.([]any)
	for _, value := range list {
		if value != want {
			return false
		}
	}
	return len(list) > 0
}

// camel is an operation's name in the SDK: describe-target-health is DescribeTargetHealth.
func camel(operation string) string {
	var out strings.Builder
	for word := range strings.SplitSeq(operation, "-") {
		if word != "" {
			out.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return out.String()
}
