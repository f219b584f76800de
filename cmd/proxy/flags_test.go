package main

import (
	"bytes"
	"errors"
	"flag"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/upstream"
)

// needed are flags without which it does not start.
var needed = []string{"--controller-dir=/controller", "--token-file=/token"}

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		args  []string
		ready bool
		fails string
	}{
		"all that is needed":         {args: needed},
		"no metrics":                 {args: []string{"--metrics-address="}},
		"metrics at any address":     {args: []string{"--metrics-address=:9081"}},
		"nothing is bounded":         {args: []string{"--connect-timeout=0", "--body-rate=0", "--body-rate-window=0", "--max-body-bytes=0", "--max-connections=0"}},
		"metrics as of either IP":    {args: []string{"--metrics-address=[10.0.0.1]:9081"}},
		"no folder of controllers":   {args: []string{"--controller-dir="}, fails: "--controller-dir is needed"},
		"no token":                   {args: []string{"--token-file="}, fails: "--token-file is needed"},
		"no socket":                  {args: []string{"--ready-socket="}, fails: "--ready-socket is needed"},
		"metrics without a port":     {args: []string{"--metrics-address=10.0.0.1"}, fails: `--metrics-address must be HOST:PORT, not "10.0.0.1"`},
		"metrics at no such port":    {args: []string{"--metrics-address=10.0.0.1:65536"}, fails: "--metrics-address"},
		"console where metrics are":  {args: []string{"--metrics-address=127.0.0.1:1", "--console=127.0.0.1:1"}, fails: "--console must not be at the address of --metrics-address"},
		"metrics everywhere":         {args: []string{"--metrics-address=:9080"}, fails: "--console must not be at the address of --metrics-address"},
		"console everywhere":         {args: []string{"--console=[::]:9081"}, fails: "--console must not be at the address of --metrics-address"},
		"ports of the kernel":        {args: []string{"--metrics-address=127.0.0.1:0", "--console=127.0.0.1:0"}},
		"another host":               {args: []string{"--metrics-address=127.0.0.2:9080"}},
		"no console":                 {args: []string{"--console="}},
		"console without a port":     {args: []string{"--console=localhost"}, fails: `--console must be HOST:PORT, not "localhost"`},
		"time without a unit":        {args: []string{"--connect-timeout=1"}, fails: "-connect-timeout"},
		"negative time":              {args: []string{"--connect-timeout=-1s"}, fails: "--connect-timeout must not be negative, as -1s is"},
		"negative rate":              {args: []string{"--body-rate=-1"}, fails: "--body-rate must not be negative, as -1 is"},
		"negative size":              {args: []string{"--max-body-bytes=-5"}, fails: "--max-body-bytes must not be negative, as -5 is"},
		"number that is none":        {args: []string{"--max-streams=many"}, fails: "-max-streams"},
		"no head":                    {args: []string{"--client-head-bytes=0"}, fails: "--client-head-bytes must be positive"},
		"no head of responses":       {args: []string{"--response-head-bytes=0"}, fails: "--response-head-bytes must be positive"},
		"no streams":                 {args: []string{"--max-streams=0"}, fails: "--max-streams must be positive"},
		"rate over no time":          {args: []string{"--body-rate-window=0"}, fails: "--body-rate-window must be positive"},
		"drain shorter than delay":   {args: []string{"--drain-delay=61s"}, fails: "--drain-timeout must not be shorter"},
		"drain shorter than idle":    {args: []string{"--drain-idle=61s"}, fails: "--drain-timeout must not be shorter"},
		"drain as long as its delay": {args: []string{"--drain-delay=60s", "--drain-idle=60s"}},
		"trusted address":            {args: []string{"--trusted-proxies=10.0.0.1"}, fails: `"10.0.0.1" is no CIDR`},
		"trusted with a space":       {args: []string{"--trusted-proxies=10.0.0.0/8, fd00::/8"}, fails: "-trusted-proxies"},
		"trusted IPv4 in IPv6":       {args: []string{"--trusted-proxies=::ffff:10.0.0.0/104"}, fails: "-trusted-proxies"},
		"nobody trusted":             {args: []string{"--trusted-proxies="}},
		"unknown flag":               {args: []string{"--verbose"}, fails: "-verbose"},
		"an argument":                {args: []string{"serve"}, fails: `unexpected argument "serve"`},
		"readiness":                  {ready: true},
		"readiness at a socket":      {args: []string{"--socket=/socket"}, ready: true},
		"readiness without a socket": {args: []string{"--socket="}, ready: true, fails: "--socket is needed"},
		"readiness with a folder":    {args: []string{"--controller-dir=/"}, ready: true, fails: "-controller-dir"},
		"readiness of something":     {args: []string{"now"}, ready: true, fails: `unexpected argument "now"`},
	} {
		t.Run(name, func(t *testing.T) {
			args := test.args
			if !test.ready {
				args = append(needed[:2:2], test.args...)
			}
			_, err := parse(args, test.ready, nil)
			if test.fails == "" && err != nil || test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)) {
				t.Errorf("error is %v, want one about %q", err, test.fails)
			}
		})
	}
}

// TestDefaults: what is promised where no flag says anything else.
func TestDefaults(t *testing.T) {
	t.Setenv("POD_NAME", "web-0")
	f, err := parse(needed, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := flags{podName: "web-0", controllerDir: "/controller", tokenFile: "/token", readySocket: "/run/proxy/ready.sock", metricsAddress: "127.0.0.1:9081",
		console: "127.0.0.1:9080",
		options: proxy.Options{
			Head: 10 * time.Second, HeadBytes: 64 << 10, Idle: 75 * time.Second, Write: 75 * time.Second, BodyRate: 240, BodyWindow: 30 * time.Second,
			Streams: 250, LastRetry: 250 * time.Millisecond, Connections: 16384, DrainDelay: 5 * time.Second, DrainIdle: 5 * time.Second, DrainTimeout: 60 * time.Second,
			Upstream: upstream.Options{Connect: time.Second, Head: 60 * time.Second, HeadBytes: 64 << 10, Progress: 75 * time.Second,
				Continue: time.Second, Idle: 75 * time.Second, MaxIdle: 256},
		}}
	if diff := compare(want, f); diff != "" {
		t.Error(diff)
	}
	if probe, err := parse(nil, true, nil); err != nil || probe.readySocket != f.readySocket {
		t.Errorf("the probe asks %s, %v", probe.readySocket, err)
	}
}

// TestEachFlag: each has a field of its own, and no field is without.
func TestEachFlag(t *testing.T) {
	f, err := parse([]string{
		"--pod-name=web-1", "--controller-dir=/c", "--token-file=/t", "--snapshot-dir=/s", "--ready-socket=/r", "--metrics-address=[::1]:1", "--console=[::1]:2",
		"--trusted-proxies=10.0.0.0/8,fd00::/8", "--client-head-timeout=1s", "--client-head-bytes=2", "--client-idle-timeout=3s",
		"--client-write-timeout=4s", "--body-rate=5", "--body-rate-window=6s", "--max-body-bytes=7", "--max-streams=8", "--drain-delay=9s",
		"--drain-idle=10s", "--drain-timeout=11s", "--connect-timeout=12s", "--response-head-timeout=13s", "--response-head-bytes=14",
		"--progress-timeout=15s", "--continue-timeout=16s", "--endpoint-idle-timeout=17s", "--endpoint-max-idle=18",
		"--max-connections=19", "--last-retry-delay=20s",
	}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := flags{podName: "web-1", controllerDir: "/c", tokenFile: "/t", snapshotDir: "/s", readySocket: "/r", metricsAddress: "[::1]:1", console: "[::1]:2",
		options: proxy.Options{
			Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
			Head:    1 * time.Second, HeadBytes: 2, Idle: 3 * time.Second, Write: 4 * time.Second, BodyRate: 5, BodyWindow: 6 * time.Second,
			MaxBody: 7, Streams: 8, Connections: 19, LastRetry: 20 * time.Second, DrainDelay: 9 * time.Second, DrainIdle: 10 * time.Second, DrainTimeout: 11 * time.Second,
			Upstream: upstream.Options{Connect: 12 * time.Second, Head: 13 * time.Second, HeadBytes: 14, Progress: 15 * time.Second,
				Continue: 16 * time.Second, Idle: 17 * time.Second, MaxIdle: 18},
		}}
	if diff := compare(want, f); diff != "" {
		t.Error(diff)
	}
}

func compare(want, got flags) string {
	return cmp.Diff(want, got, cmp.AllowUnexported(flags{}), cmpopts.EquateComparable(netip.Prefix{}))
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if _, err := parse([]string{"--help"}, false, &out); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("error is %v", err)
	}
	for _, want := range []string{"-controller-dir folder", "-trusted-proxies CIDRs", "(default 1m0s)", "proxy ready"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %s: %s", want, out.String())
		}
	}
}

// TestWrongFlags end the program with 2, and one line that says which and why.
func TestWrongFlags(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{append(needed[:2:2], "--connect-timeout=soon"), "proxy: invalid value \"soon\" for flag -connect-timeout: parse error\n"},
		{append(needed[:2:2], "--drain-delay=-1s"), "proxy: --drain-delay must not be negative, as -1s is\n"},
		{append(needed[:2:2], "--trusted-proxies=anybody"), "proxy: invalid value \"anybody\" for flag -trusted-proxies: \"anybody\" is no CIDR, such as 10.0.0.0/8 or fd00::/8\n"},
		{append(needed[:2:2], "--console=localhost:9081", "--metrics-address=localhost:9081"), "proxy: --console must not be at the address of --metrics-address, as localhost:9081 is\n"},
		{needed[:1], "proxy: --token-file is needed: the file of the token that it shows to a controller\n"},
		{[]string{"serve"}, "proxy: unexpected argument \"serve\"\n"},
		{[]string{"ready", "--port=80"}, "proxy: flag provided but not defined: -port\n"},
	} {
		ran := start(t, test.args...)
		if code := ran.code(t); code != 2 || ran.log.String() != test.want {
			t.Errorf("%q ends with %d and %q, want 2 and %q", test.args, code, ran.log, test.want)
		}
	}
}
