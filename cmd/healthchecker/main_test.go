package main

import (
	"bytes"
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Setenv("NODE_NAME", "n1")
	good := []string{"--namespace=ns", "--name=web", "--port=10080"}
	for name, test := range map[string]struct {
		args  []string
		ready bool
		fails string
	}{
		"all that is needed":     {args: good},
		"one address":            {args: append(good, "--address=::1")},
		"readiness":              {ready: true},
		"readiness with folder":  {args: []string{"--state-dir=/state"}, ready: true},
		"readiness with a port":  {args: []string{"--port=1"}, ready: true, fails: "-port"},
		"no namespace":           {args: good[1:], fails: "--namespace"},
		"no name":                {args: []string{"--namespace=ns", "--port=1"}, fails: "--name"},
		"no node":                {args: append(good, "--node="), fails: "--node"},
		"no port":                {args: good[:2], fails: "--port"},
		"port too high":          {args: append(good, "--port=65536"), fails: "--port"},
		"port that is no number": {args: append(good, "--port=http"), fails: "-port"},
		"address with a port":    {args: append(good, "--address=10.0.0.1:80"), fails: "--address"},
		"no folder":              {args: append(good, "--state-dir="), fails: "--state-dir"},
		"ingress ports":          {args: append(good, "--ingress-ports=80,443")},
		"no ingress ports":       {args: append(good, "--ingress-ports=")},
		"ingress port 0":         {args: append(good, "--ingress-ports=80,0"), fails: "-ingress-ports"},
		"ingress port too high":  {args: append(good, "--ingress-ports=65536"), fails: "-ingress-ports"},
		"ingress port missing":   {args: append(good, "--ingress-ports=80,"), fails: "-ingress-ports"},
		"ingress port by name":   {args: append(good, "--ingress-ports=http"), fails: "-ingress-ports"},
		"unknown flag":           {args: append(good, "--verbose"), fails: "-verbose"},
		"an argument":            {args: append(good, "serve"), fails: `"serve"`},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := parse(test.args, test.ready, nil)
			switch {
			case test.fails == "" && err != nil:
				t.Error(err)
			case test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)):
				t.Errorf("error is %v, want one about %s", err, test.fails)
			case test.fails == "" && !test.ready && (f.node != "n1" || f.port != 10080):
				t.Errorf("flags are %+v", f)
			}
		})
	}
}

func TestIngressPorts(t *testing.T) {
	t.Setenv("NODE_NAME", "n1")
	for text, want := range map[string][]uint16{"": nil, "80": {80}, "443,80,443": {443, 80}, "1,65535": {1, 65535}} {
		f, err := parse([]string{"--namespace=ns", "--name=web", "--port=10080", "--ingress-ports=9", "--ingress-ports=" + text}, false, nil)
		if err != nil || !slices.Equal(f.ingressPorts, want) {
			t.Errorf("%q gives %v (%v), want %v", text, f.ingressPorts, err, want)
		}
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if _, err := parse([]string{"--help"}, false, &out); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("error is %v", err)
	}
	for _, want := range []string{"-port", "-state-dir", "-ingress-ports ports", "healthchecker ready"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %s: %s", want, out.String())
		}
	}
}
