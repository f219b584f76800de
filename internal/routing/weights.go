package routing

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// AnnotationServiceWeights gives services of one path of an Ingress their parts of its requests, a line
// each: "cheddar: 50%". It is Traefik's, so that Ingresses that have it go on working.
const AnnotationServiceWeights = "traefik.ingress.kubernetes.io/service-weights"

// weights are in thousandths of a percent, by service.
type weights map[string]uint32

const (
	onePercent     = 1000
	hundredPercent = 100 * onePercent
	// maxWeights bounds how many lines are read.
	maxWeights = 64
)

// parseWeights reads the annotation: a service, a colon and a percentage with at most three decimals
// on each line; empty lines and those that begin with # say nothing.
func parseWeights(text string) (weights, error) {
	out, sum := weights{}, uint32(0)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, w, err := parseWeight(line)
		if err != nil {
			return nil, err
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%q stands there twice", name)
		}
		out[name] = w
		if sum += w; sum > hundredPercent {
			return nil, fmt.Errorf("%q is more than 100%% together", text)
		}
		if len(out) > maxWeights {
			return nil, fmt.Errorf("it has more than %d lines", maxWeights)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("it is empty")
	}
	return out, nil
}

func parseWeight(line string) (name string, w uint32, err error) {
	name, number, found := strings.Cut(line, ":")
	name = unquote(strings.TrimSpace(name))
	if !found || name == "" {
		return "", 0, fmt.Errorf("%q is not a service, a colon and a percentage", line)
	}
	number = unquote(strings.TrimSpace(number))
	digits, isPercent := strings.CutSuffix(number, "%")
	w, ok := parsePercent(strings.TrimSpace(digits))
	if !isPercent || !ok {
		return "", 0, fmt.Errorf("%q of %q is no percentage from 0%% to 100%%", number, name)
	}
	return name, w, nil
}

// unquote takes quotes off, as YAML has them.
func unquote(s string) string {
	for _, q := range []string{`"`, `'`} {
		if len(s) >= 2 && strings.HasPrefix(s, q) && strings.HasSuffix(s, q) {
			return s[1 : len(s)-1]
		}
	}
	return s
}

// parsePercent reads digits with at most three decimals, up to 100.
func parsePercent(s string) (w uint32, ok bool) {
	whole, fraction, _ := strings.Cut(s, ".")
	if len(whole) == 0 || len(whole) > 3 || len(fraction) > 3 || strings.HasSuffix(s, ".") {
		return 0, false
	}
	for _, b := range []byte(whole + fraction) {
		if b < '0' || b > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(whole+(fraction + "000")[:3], 10, 32)
	return uint32(n), err == nil && n <= hundredPercent
}
