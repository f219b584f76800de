package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy"
)

const usage = `Takes in HTTP requests, and sends them to endpoints as a controller tells it.

  proxy --controller-dir=... --token-file=...
  proxy ready --socket=...     succeeds while requests may come; the readiness probe of its pod
  proxy alive --socket=...     succeeds while the proxy answers at all; the liveness probe of its pod

`

// defaultSocket is where the proxy and its probe meet where no flag says so.
const defaultSocket = "/run/proxy/ready.sock"

type flags struct {
	podName, controllerDir, tokenFile, snapshotDir, readySocket, metricsAddress, console string
	options                                                                              proxy.Options
}

// networks is a flag: CIDRs with commas between them.
type networks []netip.Prefix

func (n *networks) String() string {
	var all []string
	for _, p := range *n {
		all = append(all, p.String())
	}
	return strings.Join(all, ",")
}

func (n *networks) Set(text string) error {
	*n = nil
	if text == "" {
		return nil
	}
	for cidr := range strings.SplitSeq(text, ",") {
		p, err := netip.ParsePrefix(cidr)
		// Peers by IPv4 have addresses of IPv4.
		if err != nil || p.Addr().Is4In6() {
			return fmt.Errorf("%q is no CIDR, such as 10.0.0.0/8 or fd00::/8", cidr)
		}
		*n = append(*n, p)
	}
	return nil
}

// parse returns an error that says which flag to change.
func parse(args []string, probe bool, out io.Writer) (f flags, err error) {
	set := flag.NewFlagSet("proxy", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	if probe {
		set.StringVar(&f.readySocket, "socket", defaultSocket, "`file` of the socket at which the proxy says whether it is ready")
	} else {
		f.register(set)
	}
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, usage)
		set.SetOutput(out)
		set.PrintDefaults()
		return f, err
	case err != nil:
		return f, err
	case set.NArg() > 0:
		return f, fmt.Errorf("unexpected argument %q", set.Arg(0))
	case probe && f.readySocket == "":
		return f, errors.New("--socket is needed: the file of the proxy's socket")
	case probe:
		return f, nil
	}
	if err := negative(set); err != nil {
		return f, err
	}
	return f, f.check()
}

func (f *flags) register(set *flag.FlagSet) {
	set.StringVar(&f.podName, "pod-name", os.Getenv("POD_NAME"), "`name` under which it asks a controller; $POD_NAME by default")
	set.StringVar(&f.controllerDir, "controller-dir", "", "`folder` of a mounted ConfigMap: ca.crt are the authorities of controllers as PEM, address is HOST:PORT of one")
	set.StringVar(&f.tokenFile, "token-file", "", "`file` of the projected token that it shows to a controller")
	set.StringVar(&f.snapshotDir, "snapshot-dir", "", "writable `folder` that outlives a restart of the container and is in memory, for what it was told, with keys of certificates; empty: none is kept")
	set.StringVar(&f.readySocket, "ready-socket", defaultSocket, "`file` of the socket at which it says whether it is ready")
	set.StringVar(&f.metricsAddress, "metrics-address", "127.0.0.1:9081", "`address` of /metrics, of all proxies of a node, which share it; no listener is opened at its port; empty: none")
	set.StringVar(&f.console, "console", "127.0.0.1:9080", "`address` of the console, which shows people what it serves; proxies of a node share it; no listener is opened at its port; empty: none")

	f.options = proxy.Defaults()
	o := &f.options
	set.Var((*networks)(&o.Trusted), "trusted-proxies", "`CIDRs`, with commas between them, of peers whose X-Forwarded-* and X-Real-IP are believed; empty: nobody's are")
	set.DurationVar(&o.Head, "client-head-timeout", o.Head, "how long the head of a request may take from its first byte, and a TLS handshake: 408 after that; 0: any time")
	set.IntVar(&o.HeadBytes, "client-head-bytes", o.HeadBytes, "how many `bytes` the head of a request may have: 431 beyond")
	set.DurationVar(&o.Idle, "client-idle-timeout", o.Idle, "how long a client's connection may wait for its next request; 0: any time")
	set.DurationVar(&o.Write, "client-write-timeout", o.Write, "how long a client may take none of a response; 0: any time")
	set.IntVar(&o.BodyRate, "body-rate", o.BodyRate, "how many `bytes` of a request's body are to come in a second, on average over --body-rate-window: 408 below that; 0: any number")
	set.DurationVar(&o.BodyWindow, "body-rate-window", o.BodyWindow, "over how long --body-rate is an average")
	set.Int64Var(&o.MaxBody, "max-body-bytes", o.MaxBody, "how many `bytes` a request's body may have: 413 beyond; 0: any number")
	set.IntVar(&o.Streams, "max-streams", o.Streams, "`number` of requests at a time on a connection of HTTP/2")
	set.IntVar(&o.Connections, "max-connections", o.Connections, "`number` of connections that clients may have open, idle ones of TLS take about 50 KiB each: beyond, those that have waited longest for a request make room for new ones; 0: any number")
	set.DurationVar(&o.LastRetry, "last-retry-delay", o.LastRetry, "how long the last retry of a request waits, so that endpoints which end together are known by then; 0: not at all")
	set.DurationVar(&o.DrainDelay, "drain-delay", o.DrainDelay, "for how long connections are taken as before, from SIGTERM on")
	set.DurationVar(&o.DrainIdle, "drain-idle", o.DrainIdle, "for how long idle connections are left open at least, from SIGTERM on")
	set.DurationVar(&o.DrainTimeout, "drain-timeout", o.DrainTimeout, "after how long what goes on is ended, from SIGTERM on")

	u := &o.Upstream
	set.DurationVar(&u.Connect, "connect-timeout", u.Connect, "how long each connect to an endpoint may take; 0: any time")
	set.DurationVar(&u.Head, "response-head-timeout", u.Head, "how long an endpoint may take for the head of its response, from when the request was sent: 504 after that; 0: any time")
	set.IntVar(&u.HeadBytes, "response-head-bytes", u.HeadBytes, "how many `bytes` the head of a response may have")
	set.DurationVar(&u.Progress, "progress-timeout", u.Progress, "how long an endpoint may take for the next part of a response, and to take the next part of a request; 0: any time")
	set.DurationVar(&u.Continue, "continue-timeout", u.Continue, "how long a body whose request expects 100 (Continue) waits for it; 0: not at all")
	set.DurationVar(&u.Idle, "endpoint-idle-timeout", u.Idle, "how long a connection to an endpoint may wait for its next request; 0: any time")
	set.IntVar(&u.MaxIdle, "endpoint-max-idle", u.MaxIdle, "`number` of connections to an endpoint that may wait")
}

// negative returns an error where a time or a number is.
func negative(set *flag.FlagSet) (err error) {
	set.VisitAll(func(f *flag.Flag) {
		if strings.HasPrefix(f.Value.String(), "-") && isNumber(f.Value) {
			err = errors.Join(err, fmt.Errorf("--%s must not be negative, as %s is", f.Name, f.Value))
		}
	})
	return err
}

func isNumber(v flag.Value) bool {
	getter, is := v.(flag.Getter)
	if !is {
		return false
	}
	switch getter.Get().(type) {
	case time.Duration, int, int64:
		return true
	}
	return false
}

func (f flags) check() error {
	o := f.options
	switch {
	case f.controllerDir == "":
		return errors.New("--controller-dir is needed: the folder with ca.crt and address of controllers")
	case f.tokenFile == "":
		return errors.New("--token-file is needed: the file of the token that it shows to a controller")
	case f.readySocket == "":
		return errors.New("--ready-socket is needed: a file in a writable folder")
	case o.HeadBytes == 0:
		return errors.New("--client-head-bytes must be positive")
	case o.Upstream.HeadBytes == 0:
		return errors.New("--response-head-bytes must be positive")
	case o.Streams == 0:
		return errors.New("--max-streams must be positive")
	case o.BodyRate > 0 && o.BodyWindow == 0:
		return errors.New("--body-rate-window must be positive where --body-rate is")
	case o.DrainTimeout < max(o.DrainDelay, o.DrainIdle):
		return fmt.Errorf("--drain-timeout must not be shorter than --drain-delay and --drain-idle, as %s is", o.DrainTimeout)
	}
	for name, address := range map[string]string{"metrics-address": f.metricsAddress, "console": f.console} {
		if address == "" {
			continue
		}
		if err := checkAddress(address); err != nil {
			return fmt.Errorf("--%s %w", name, err)
		}
	}
	if meet(f.metricsAddress, f.console) {
		return fmt.Errorf("--console must not be at the address of --metrics-address, as %s is", f.console)
	}
	return nil
}

// meet reports whether two addresses cannot both be listened at: their port is the same, and their host, or either is
// for all hosts.
func meet(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	everywhere := func(host string) bool { return host == "" || host == "0.0.0.0" || host == "::" }
	return hostA == hostB || everywhere(hostA) || everywhere(hostB)
}

func parsePort(text string) (uint16, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	return uint16(port), err
}
