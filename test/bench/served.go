package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// servers is how many pods really serve.
	servers = 20
	// visitEvery is how often somebody comes to each load balancer.
	visitEvery = 20 * time.Millisecond
)

// servedResult is one line: when pods were first served through a load balancer, as
// medians. The load balancers are ten times as fast as AWS's.
type servedResult struct {
	Case     string `json:"case"`
	Kind     string `json:"kind"`
	Balancer string `json:"balancer"`
	Pods     int    `json:"pods"`
	// Seconds is from when a pod's address was seen to its first request; CallSeconds
	// of that until the call to register it came in, BalancerSeconds after that.
	Seconds         float64 `json:"seconds"`
	CallSeconds     float64 `json:"callSeconds"`
	BalancerSeconds float64 `json:"balancerSeconds"`
	Scale           int     `json:"scale"`
}

// serve has pods come that serve, behind load balancers that send requests all the time.
func (c *contest) serve(ctx context.Context) error {
	start := time.Now()
	s, addresses := &firsts{at: map[string]time.Time{}}, []string{}
	for i := range servers {
		addresses = append(addresses, local(1, 1+i))
		if err := s.listen(ctx, addresses[i]); err != nil {
			return err
		}
	}
	contenders := []*contender{c.controller, c.poller}
	for _, who := range contenders {
		for balancer, front := range who.fronts {
			go visit(ctx, fmt.Sprintf("http://%s/%s/%s", front, who.name, balancer))
		}
	}
	err := c.paced(ctx, addresses, func(ctx context.Context, address string) error { return c.startPods(ctx, "served", []string{address}) })
	if err == nil {
		err = until(ctx, func() (bool, error) { return s.count() == servers*len(contenders)*len(c.served), nil })
	}
	if err != nil {
		return fmt.Errorf("first request served: %d of %d pods and load balancers: %w", s.count(), servers*len(contenders)*len(c.served), err)
	}
	for _, balancer := range c.served {
		for _, who := range contenders {
			calls, err := who.callsSince(ctx, start)
			if err != nil {
				return err
			}
			r := s.summarize(who, balancer, firstCalls(calls, registering.action, []string{who.groups[balancer]}), c.seen.addressed(start))
			if err := c.report.write(r, r.Case, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *firsts) summarize(who *contender, balancer string, calls map[registration]time.Time, addressed map[string]time.Time) *servedResult {
	var whole, call, after []float64
	for address, at := range addressed {
		first, called := s.of(address, who.name, balancer), calls[registration{who.groups[balancer], address}]
		whole = append(whole, first.Sub(at).Seconds())
		call = append(call, called.Sub(at).Seconds())
		after = append(after, first.Sub(called).Seconds())
	}
	return &servedResult{
		Case: "first request served", Kind: who.name, Balancer: balancer, Pods: servers, Scale: scale,
		Seconds: percentile(whole, 50), CallSeconds: percentile(call, 50), BalancerSeconds: percentile(after, 50),
	}
}

// firsts are when the servers of pods got their first requests, by address and path.
type firsts struct {
	mu sync.Mutex
	at map[string]time.Time
}

// listen answers at an address until ctx is done.
func (s *firsts) listen(ctx context.Context, address string) error {
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", address, podPort))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if key := address + r.URL.Path; s.at[key].IsZero() {
			s.at[key] = time.Now()
		}
	})}
	go server.Serve(l)
	context.AfterFunc(ctx, func() { server.Close() })
	return nil
}

func (s *firsts) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.at)
}

// of is when a pod was first served by the load balancer of a contender.
func (s *firsts) of(address string, path ...string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at[address+"/"+strings.Join(path, "/")]
}

// visit comes again and again, each time on a new connection. While the load balancer has
// no target, that is in vain.
func visit(ctx context.Context, url string) {
	visitor := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	ticker := time.NewTicker(visitEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return
		}
		if response, err := visitor.Do(r); err == nil {
			response.Body.Close()
		}
	}
}
