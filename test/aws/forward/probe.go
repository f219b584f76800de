package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// checker sends health checks, each on a connection of its own. It follows no redirect.
var checker = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// probe carries out a health check.
func probe(ctx context.Context, p cloud.Probe) cloud.Result {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	if p.Protocol == "TCP" {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", p.Address)
		if err != nil {
			return failure(err)
		}
		conn.Close()
		return cloud.Result{OK: true}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Address+p.Path, nil)
	if err != nil {
		return failure(err)
	}
	request.Header.Set("User-Agent", "ELB-HealthChecker/2.0")
	response, err := checker.Do(request)
	if err != nil {
		return failure(err)
	}
	defer response.Body.Close()
	io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
	if !cloud.Matches(p.Matcher, response.StatusCode) {
		return cloud.Result{Reason: "Target.ResponseCodeMismatch", Description: fmt.Sprintf("Health checks failed with these codes: [%d]", response.StatusCode)}
	}
	return cloud.Result{OK: true}
}

func failure(err error) cloud.Result {
	if errors.Is(err, context.DeadlineExceeded) {
		return cloud.Result{Reason: "Target.Timeout", Description: "Request timed out"}
	}
	return cloud.Result{Reason: "Target.FailedHealthChecks", Description: "Health checks failed"}
}
