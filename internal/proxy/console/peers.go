package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/peers"
)

// The answer of another proxy is believed as far as it is shown.
const (
	// peerPatience is how long one may take.
	peerPatience = time.Second
	// maxProcess bounds what one may say of itself in short, maxValues how many values of JSON one may say at all: what
	// we say is a tenth of that, and a few bytes can be a value that takes hundreds.
	maxProcess = 64 << 10
	maxValues  = 200_000
)

// processes are the proxies of the node: by the names of their pods, each with what it answers, or why it does not. Where
// there are too many, those that answer come first. The error says why no other one could be found.
func (c *Console) processes(ctx context.Context) ([]Process, error) {
	var all []Process
	err := c.peers.AskAll(ctx, "/process", maxProcess, func(a peers.Answer) {
		told, err := processOf(a)
		if err != nil {
			told = Process{Pod: peers.PodOf(a.Key), Problem: cut(err.Error())}
		}
		told.Key = a.Key
		all = append(all, told)
	})
	byName := func(a, b Process) int { return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Key, b.Key)) }
	slices.SortFunc(all, func(a, b Process) int { return cmp.Or(cmp.Compare(a.Problem, b.Problem), byName(a, b)) })
	all = append(all[:min(len(all), peers.Most)], c.process())
	slices.SortFunc(all, byName)
	return all, err
}

func processOf(a peers.Answer) (told Process, err error) {
	if a.Err != nil {
		return told, a.Err
	}
	return told, read(a.Content, &told)
}

// viewOf is what another one shows of itself.
func (c *Console) viewOf(ctx context.Context, key string, q query) (v View, err error) {
	content, err := c.peers.Ask(ctx, key, "/view?"+q.values().Encode(), maxBytes)
	if err != nil {
		return v, err
	}
	err = read(content, &v)
	v.Key = key
	return v, err
}

func read(content []byte, into any) error {
	if valuesIn(content) > maxValues {
		return peers.ErrTooMuch
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("its answer cannot be read: %w", err)
	}
	return nil
}

// valuesIn is how many values a text of JSON has at most.
func valuesIn(content []byte) int {
	n, quoted, escaped := 1, false, false
	for _, c := range content {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == ',' || c == '[' || c == '{':
			n++
		}
	}
	return n
}
