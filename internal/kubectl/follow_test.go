package kubectl

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// following are the commands that go on for as long as somebody looks, or waits, and what each shows of a
// rollout that is complete.
var following = []struct {
	args     []string
	complete string
}{
	{[]string{"status", "nginx", "--watch"}, "Complete"},
	{[]string{"top"}, "1 Complete"},
	{[]string{"rollout", "status", "nginx"}, "successfully rolled out: 4 of 4 nodes"},
}

// goesAway is an API server that is away for some requests once a watch has told what there is, which ends it.
func goesAway(t *testing.T, requests int) *fakeAPI {
	f, stored := recordedFleet(t, func(*v1alpha1.IngressDaemonSet) {})
	f.afterWatch = func() {
		set := stored()
		set.Status.Conditions[1].Reason, set.Status.UpdatedNodes = v1alpha1.ReasonComplete, 4
		f.put(kindSet, set)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.away = requests
	}
	return f
}

// TestFollowingOutlastsTheAPIServer: each says once that it is away, with the error, and shows what has changed
// when it is back.
func TestFollowingOutlastsTheAPIServer(t *testing.T) {
	const away = "The API server is away for 0s, and is asked again: "
	for _, c := range following {
		// The first picture of a status asks twice beside the watch.
		f := goesAway(t, 3)
		out, err := f.idsUntil(c.complete, c.args...)
		before, after, said := strings.Cut(out, away)
		if err != nil && !errors.Is(err, errInterrupted) || !said || before == "" || strings.Contains(after, away) || !strings.Contains(after, c.complete) || f.away > 0 {
			t.Errorf("%v: %v\n%s", c.args, err, out)
		}
	}
}

// TestFollowingEndsWhileTheAPIServerIsAway: Ctrl-C ends it at once.
func TestFollowingEndsWhileTheAPIServerIsAway(t *testing.T) {
	for _, c := range following {
		f := goesAway(t, 1000)
		if out, err := f.idsUntil("is asked again", c.args...); err != nil && !errors.Is(err, errInterrupted) || f.away < 990 {
			t.Errorf("%v: %v, after %d requests\n%s", c.args, err, 1000-f.away, out)
		}
	}
}

// TestFollowingNeedsAnAPIServer: what is away from the first on may be none.
func TestFollowingNeedsAnAPIServer(t *testing.T) {
	for _, c := range following {
		f, _ := recordedFleet(t, func(*v1alpha1.IngressDaemonSet) {})
		f.away = 1
		if out, err := f.ids(c.args...); !apierrors.IsServiceUnavailable(err) || strings.Contains(out, "away") {
			t.Errorf("%v: %v\n%s", c.args, err, out)
		}
	}
}

// TestSayAway says so when it begins, and every minute while it lasts.
func TestSayAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &bytes.Buffer{}
		o := &operator{streams: genericiooptions.IOStreams{ErrOut: out}}
		began := time.Now()
		err := rewatch(t.Context(), func(heard func()) (bool, error) {
			switch passed := time.Since(began); {
			case passed == 0, passed == 150*time.Second:
				heard()
			case passed > 200*time.Second:
				return true, nil
			}
			return false, syscall.ECONNREFUSED
		}, o.sayAway())
		want := ""
		for _, lasts := range []string{"0s", "1m0s", "2m0s", "0s"} {
			want += "The API server is away for " + lasts + ", and is asked again: connection refused\n"
		}
		if err != nil || out.String() != want {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// TestPasses tells an API server that is away, or cannot be reached, from what waiting does not mend.
func TestPasses(t *testing.T) {
	asked := func(err error) error {
		return fmt.Errorf("reading: %w", &url.Error{Op: "Get", URL: "https://api", Err: err})
	}
	dial := func(err error) error { return asked(&net.OpError{Op: "dial", Net: "tcp", Err: err}) }
	sets := schema.GroupResource{Resource: "ingressdaemonsets"}
	for want, errs := range map[bool][]error{
		true: {
			dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)),
			dial(os.NewSyscallError("connect", syscall.ENETUNREACH)), dial(&net.DNSError{Err: "server misbehaving", Name: "api"}),
			asked(os.NewSyscallError("read", syscall.ECONNRESET)), asked(io.EOF), asked(io.ErrUnexpectedEOF), asked(context.DeadlineExceeded),
			errors.New("http2: client connection lost"), apierrors.NewInternalError(errors.New("etcd")), apierrors.NewServiceUnavailable("starting"),
			apierrors.NewTooManyRequests("busy", 1), apierrors.NewTimeoutError("slow", 1),
		},
		false: {
			apierrors.NewNotFound(sets, "nginx"), apierrors.NewForbidden(sets, "nginx", errors.New("no")), apierrors.NewUnauthorized("expired"),
			asked(x509.UnknownAuthorityError{}), asked(&net.OpError{Op: "remote error", Err: errors.New("tls: expired certificate")}),
		},
	} {
		for _, err := range errs {
			if got := passes(err); got != want {
				t.Errorf("%v: %v", err, got)
			}
		}
	}
}
