package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The table of routes, what of it changes in a second, and for how long.
const (
	visibleRoutes  = 3000
	routesASecond  = 5
	slicesASecond  = 20
	visibleSamples = 300
	// visitsASecond is how often a client asks for one of all routes.
	visitsASecond = 200
	// pollPause is how long somebody waits who asks whether a proxy serves a change.
	pollPause = time.Millisecond

	maxVisibleMeanMs = 30
	maxVisibleP99Ms  = 100
)

// visibleResult is one line: when all proxies served a route as it was changed, from when the API server had
// answered its write.
type visibleResult struct {
	Case    string  `json:"case"`
	Routes  int     `json:"routes"`
	Proxies int     `json:"proxies"`
	Changes int     `json:"changes"`
	MeanMs  float64 `json:"meanMs"`
	P50Ms   float64 `json:"p50Ms"`
	P99Ms   float64 `json:"p99Ms"`
	MaxMs   float64 `json:"maxMs"`
	// Slices is how many EndpointSlices changed meanwhile, Visits how many requests were sent to all routes, of
	// which Wrong were not answered with 200.
	Slices int64 `json:"slices"`
	Visits int64 `json:"visits"`
	Wrong  int64 `json:"wrong"`
	Bars   []bar `json:"bars"`
}

// visible is the case while it runs.
type visible struct {
	*routed
	endpoint *net.TCPAddr
	port     uint16
	proxies  []*running

	visits, wrong, slices atomic.Int64
	// saidWrong says the first wrong answer.
	saidWrong sync.Once
}

// proxyVisible measures how soon a change of a route is served by all proxies, while endpoints and other routes
// change.
func proxyVisible(ctx context.Context, o options, r *report) error {
	return onRouted(ctx, o, func(ctx context.Context, s *routed) (err error) {
		v := &visible{routed: s}
		defer func() {
			for _, p := range v.proxies {
				err = errors.Join(err, p.end())
			}
		}()
		if err := v.begin(ctx, o); err != nil {
			return fmt.Errorf("preparing routes: %w", err)
		}
		result, err := v.churn(ctx)
		if err != nil {
			return fmt.Errorf("changing routes: %w", err)
		}
		return r.write(result, result.Case, result.Bars)
	})
}

// begin makes all routes, starts the proxies, and returns when these serve all.
func (v *visible) begin(ctx context.Context, o options) error {
	at, err := freePorts()
	if err != nil {
		return err
	}
	v.port = at.plain
	own, err := ownAddress()
	if err != nil {
		return err
	}
	if v.endpoint, err = answering(ctx, own); err != nil {
		return err
	}
	gateway := gatewayObject("Gateway", namespace, "web", map[string]any{
		"gatewayClassName": idsName, "listeners": []any{map[string]any{"name": "http", "protocol": "HTTP", "port": int64(v.port)}},
	})
	if err := v.client.Create(ctx, gateway); err != nil {
		return err
	}
	if err := v.services(ctx, visibleRoutes, v.endpoint); err != nil {
		return err
	}
	if err := v.each(ctx, visibleRoutes, func(ctx context.Context, i int) error { return v.client.Create(ctx, routeNumber(i)) }); err != nil {
		return err
	}
	program, err := v.build(ctx, o.proxy)
	if err != nil {
		return err
	}
	for _, pod := range v.pods {
		if err := v.startProxy(ctx, program, pod); err != nil {
			return err
		}
	}
	return v.awaitServed(ctx)
}

// routeNumber is an HTTPRoute of a host of its own, whose answers name a version in a header.
func routeNumber(i int) client.Object {
	return gatewayObject("HTTPRoute", namespace, serviceNumber(i), map[string]any{
		"parentRefs": []any{map[string]any{"name": "web"}},
		"hostnames":  []any{hostNumber(i)},
		"rules": []any{map[string]any{
			"filters": []any{map[string]any{"type": "ResponseHeaderModifier", "responseHeaderModifier": map[string]any{
				"set": []any{map[string]any{"name": fromHeader, "value": "0"}},
			}}},
			"backendRefs": []any{map[string]any{"name": serviceNumber(i), "port": int64(80)}},
		}},
	})
}

// changed is the patch by which a route's answers name another version.
func changed(version int) client.Patch {
	return client.RawPatch(types.JSONPatchType, fmt.Appendf(nil,
		`[{"op":"replace","path":"/spec/rules/0/filters/0/responseHeaderModifier/set/0/value","value":"%d"}]`, version))
}

func (v *visible) startProxy(ctx context.Context, program string, pod corev1.Pod) error {
	dir, err := v.folder(ctx, pod)
	if err != nil {
		return err
	}
	p, err := startGroup(filepath.Join(v.Dir(), "logs", pod.Name+".log"), pod.Name, proxyCommand(ctx, program, dir, pod.Name))
	if err != nil {
		return err
	}
	v.proxies = append(v.proxies, p)
	return nil
}

// awaitServed waits until all proxies serve all routes.
func (v *visible) awaitServed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	var visitors []*visitor
	err := until(ctx, func() (_ bool, err error) {
		visitors, err = v.visitors(ctx)
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("not all proxies listen: %w: %s", err, v.proxies[0].said())
	}
	for _, to := range visitors {
		defer to.Close()
		for i := range visibleRoutes {
			err := until(ctx, func() (bool, error) {
				a, err := to.ask(i)
				return a.status == 200, err
			})
			if err != nil {
				return fmt.Errorf("%s does not serve route %d: %w", to.proxy, i, err)
			}
		}
	}
	return nil
}

// churn changes routes and endpoints for a minute, and measures each change of a route.
func (v *visible) churn(ctx context.Context) (*visibleResult, error) {
	ctx, stop := context.WithTimeout(ctx, 10*time.Minute)
	defer stop()
	beside, endBeside := context.WithCancel(ctx)
	defer endBeside()
	var others errgroup.Group
	others.Go(func() error { return v.changeSlices(beside) })
	others.Go(func() error { return v.visitAll(beside) })
	waited, err := v.changeRoutes(ctx)
	endBeside()
	if err := errors.Join(err, others.Wait()); err != nil {
		return nil, err
	}
	mean := 0.0
	for _, ms := range waited {
		mean += ms / float64(len(waited))
	}
	r := &visibleResult{
		Case: "proxy-visible", Routes: visibleRoutes, Proxies: len(v.proxies), Changes: len(waited),
		MeanMs: rounded(mean), P50Ms: percentile(waited, 50), P99Ms: percentile(waited, 99), MaxMs: percentile(waited, 100),
		Slices: v.slices.Load(), Visits: v.visits.Load(), Wrong: v.wrong.Load(),
	}
	r.Bars = []bar{
		atMost("mean ms from the answer to a write until all proxies serve it", r.MeanMs, maxVisibleMeanMs),
		atMost("p99 ms of it", r.P99Ms, maxVisibleP99Ms),
		atMost("answers other than 200 meanwhile", float64(r.Wrong), 0),
	}
	return r, nil
}

// atRate calls do so many times a second, also where a call takes longer than is between two, until it was called
// n times or the context ends; n of 0 is any number. It returns when all calls have.
func atRate(ctx context.Context, aSecond, n int, do func(context.Context, int) error) error {
	ticker := time.NewTicker(time.Second / time.Duration(aSecond))
	defer ticker.Stop()
	group, groupCtx := errgroup.WithContext(ctx)
	for i := 0; n == 0 || i < n; i++ {
		select {
		case <-groupCtx.Done():
			return group.Wait()
		case <-ticker.C:
		}
		group.Go(func() error { return do(groupCtx, i) })
	}
	return group.Wait()
}

// changeSlices has pods replaced by others at their addresses, until the context ends.
func (v *visible) changeSlices(ctx context.Context) error {
	err := atRate(ctx, slicesASecond, 0, func(ctx context.Context, i int) error {
		v.slices.Add(1)
		return v.client.Update(ctx, sliceOf(i*31%visibleRoutes, v.endpoint, fmt.Sprint(i+1)))
	})
	return unlessOver(ctx, err)
}

// unlessOver is nil for what failed because the context had ended.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// visitAll asks for one route after the other, of one proxy after the other, until the context ends.
func (v *visible) visitAll(ctx context.Context) error {
	all, err := v.visitors(ctx)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(time.Second / visitsASecond)
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			for _, to := range all {
				to.Close()
			}
			return nil
		case <-ticker.C:
		}
		if _, err := all[i%len(all)].visit(i * 7919 % visibleRoutes); err != nil {
			return err
		}
	}
}

// changeRoutes changes a route at a time, and tells for each after how many milliseconds all proxies served it.
func (v *visible) changeRoutes(ctx context.Context) (waited []float64, err error) {
	waited = make([]float64, visibleSamples)
	// More than one change is under way where one takes longer than is between two.
	free := make(chan []*visitor, 2*routesASecond)
	for range cap(free) {
		visitors, err := v.visitors(ctx)
		if err != nil {
			return nil, err
		}
		for _, to := range visitors {
			defer to.Close()
		}
		free <- visitors
	}
	err = atRate(ctx, routesASecond, visibleSamples, func(ctx context.Context, i int) (err error) {
		visitors := <-free
		waited[i], err = v.changeRoute(ctx, i, visitors)
		free <- visitors
		return err
	})
	return waited, err
}

// changeRoute is the milliseconds from the API server's answer until the last proxy serves the change. Proxies are
// asked from before the write on, so that the first to serve it is not asked too late.
func (v *visible) changeRoute(ctx context.Context, i int, visitors []*visitor) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	route, version := i*7%visibleRoutes, i+1
	served := make([]time.Time, len(visitors))
	group, groupCtx := errgroup.WithContext(ctx)
	for at, to := range visitors {
		group.Go(func() error {
			err := to.await(groupCtx, route, strconv.Itoa(version))
			served[at] = time.Now()
			return err
		})
	}
	var written time.Time
	group.Go(func() error {
		err := v.client.Patch(groupCtx, routeNumber(route), changed(version))
		written = time.Now()
		return err
	})
	if err := group.Wait(); err != nil {
		return 0, err
	}
	longest := time.Duration(0)
	for _, at := range served {
		longest = max(longest, at.Sub(written))
	}
	return longest.Seconds() * 1000, nil
}

// visitor is a connection to one of the proxies, which all listen at the same port.
type visitor struct {
	*visible
	net.Conn
	in    *bufio.Reader
	proxy string
}

// visitors are one for each proxy. The kernel chooses which proxy a connection goes to.
func (v *visible) visitors(ctx context.Context) ([]*visitor, error) {
	found := map[string]*visitor{}
	for range 50 * len(v.proxies) {
		conn, err := dial(ctx, loopbackAt(v.port))
		if err != nil {
			return nil, err
		}
		proxy, err := v.proxyOf(conn)
		if err != nil || found[proxy] != nil {
			conn.Close()
			if err != nil {
				return nil, err
			}
			continue
		}
		found[proxy] = &visitor{v, conn, bufio.NewReader(conn), proxy}
		if len(found) == len(v.proxies) {
			var all []*visitor
			for _, p := range v.proxies {
				all = append(all, found[p.name])
			}
			return all, nil
		}
	}
	for _, to := range found {
		to.Close()
	}
	return nil, fmt.Errorf("connections came to %d of %d proxies", len(found), len(v.proxies))
}

// proxyOf names the proxy whose process has the other end of a connection. It is asked a first time for that, so
// that it has taken the connection in.
func (v *visible) proxyOf(conn net.Conn) (string, error) {
	to := &visitor{visible: v, Conn: conn, in: bufio.NewReader(conn)}
	if _, err := to.ask(0); err != nil {
		return "", err
	}
	inode, err := inodeOf(conn.RemoteAddr().(*net.TCPAddr).Port, conn.LocalAddr().(*net.TCPAddr).Port)
	if err != nil {
		return "", err
	}
	for _, p := range v.proxies {
		if has(p.process.Pid, "socket:["+inode+"]") {
			return p.name, nil
		}
	}
	return "", errors.New("a connection to no proxy")
}

// inodeOf is that of the end of a connection whose local port is the first, as /proc/net tells it.
func inodeOf(local, remote int) (string, error) {
	for _, file := range []string{"/proc/net/tcp6", "/proc/net/tcp"} {
		table, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		for line := range strings.Lines(string(table)) {
			fields := strings.Fields(line)
			if len(fields) > 9 && strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", local)) && strings.HasSuffix(fields[2], fmt.Sprintf(":%04X", remote)) {
				return fields[9], nil
			}
		}
	}
	return "", fmt.Errorf("nobody has the end at port %d of the connection from port %d", local, remote)
}

// has reports whether a process has a file open.
func has(pid int, name string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	files, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, file := range files {
		if to, err := os.Readlink(filepath.Join(dir, file.Name())); err == nil && to == name {
			return true
		}
	}
	return false
}

// await asks for a route, which is served, until its answer names a version.
func (to *visitor) await(ctx context.Context, route int, version string) error {
	for {
		a, err := to.ask(route)
		if err != nil {
			return err
		}
		to.note(route, a)
		if a.from == version {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollPause):
		}
	}
}

// visit asks for a route that is served, and counts a wrong answer.
func (to *visitor) visit(route int) (answer, error) {
	a, err := to.ask(route)
	to.visits.Add(1)
	to.note(route, a)
	return a, err
}

// note counts an answer other than 200.
func (to *visitor) note(route int, a answer) {
	if a.status == 200 {
		return
	}
	to.wrong.Add(1)
	to.saidWrong.Do(func() { fmt.Fprintf(os.Stderr, "%s answered %d for route %d\n", to.proxy, a.status, route) })
}

func (to *visitor) ask(route int) (answer, error) {
	if _, err := fmt.Fprintf(to, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", hostNumber(route)); err != nil {
		return answer{}, err
	}
	return readAnswer(to.in)
}
