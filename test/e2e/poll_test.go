package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

// poll asks a port of every node ten times a second, as a program of this project does,
// and records what is answered.
type poll struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	nodes  map[string]*record
}

// record is what a node answered.
type record struct {
	v1alpha1.HealthCheckAnswer
	// kinds are how often it was what, such as "200" or "503 Marked".
	kinds map[string]int
	// failing is when it first was another than 200, heard when there last was one.
	failing, heard time.Time
}

const fine = "200"

func startPoll(ctx context.Context, on *harness.Harness, port int) *poll {
	ctx, cancel := context.WithCancel(ctx)
	p := &poll{cancel: cancel, nodes: map[string]*record{}}
	client := newAsking()
	for _, n := range on.Nodes() {
		url := "http://" + net.JoinHostPort(n.IP(), strconv.Itoa(port)) + "/"
		p.nodes[n.Name()] = &record{kinds: map[string]int{}}
		p.done.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					p.note(n.Name(), client, url)
				}
			}
		})
	}
	return p
}

// newAsking asks nodes, each time on another connection.
func newAsking() *http.Client {
	return &http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{DialContext: theHarness.DialContext, DisableKeepAlives: true},
	}
}

func (p *poll) note(node string, client *http.Client, url string) {
	kind, answer, err := ask(client, url)
	p.mu.Lock()
	defer p.mu.Unlock()
	r, now := p.nodes[node], time.Now()
	r.kinds[kind]++
	if kind != fine && r.failing.IsZero() {
		r.failing = now
	}
	if err == nil {
		r.HealthCheckAnswer, r.heard = answer, now
	}
}

// ask gives the kind of an answer and what it says, where a health checker gives it.
func ask(client *http.Client, url string) (kind string, answer v1alpha1.HealthCheckAnswer, err error) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err.Error(), answer, err
	}
	request.Header.Set(v1alpha1.HeaderClient, "e2e")
	response, err := client.Do(request)
	if err != nil {
		reasons := strings.Split(err.Error(), ": ")
		return reasons[len(reasons)-1], answer, err
	}
	defer response.Body.Close()
	_ = json.NewDecoder(response.Body).Decode(&answer)
	kind = strconv.Itoa(response.StatusCode)
	if kind != fine {
		kind += " " + answer.Reason
	}
	return kind, answer, nil
}

// until waits until each node's record is as it should be.
func (p *poll) until(ctx context.Context, what string, is func(node string, r record) bool) error {
	err := harness.Wait(ctx, what, func() (bool, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for node, r := range p.nodes {
			if !is(node, *r) {
				return false, fmt.Errorf("node %s answered last: %+v", node, r.HealthCheckAnswer)
			}
		}
		return true, nil
	})
	return err
}

// take gives what was recorded since it was called last, by node.
func (p *poll) take() map[string]record {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := map[string]record{}
	for node, r := range p.nodes {
		taken[node] = *r
		p.nodes[node] = &record{kinds: map[string]int{}, HealthCheckAnswer: r.HealthCheckAnswer}
	}
	return taken
}

// stop ends it.
func (p *poll) stop() {
	p.cancel()
	p.done.Wait()
}

// told says how often each node answered what.
func told(records map[string]record) string {
	var nodes []string
	for _, node := range slices.Sorted(maps.Keys(records)) {
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(records[node].kinds)) {
			kinds = append(kinds, fmt.Sprintf("%d x %s", records[node].kinds[kind], kind))
		}
		nodes = append(nodes, node+" "+strings.Join(kinds, ", "))
	}
	return strings.Join(nodes, "; ")
}
