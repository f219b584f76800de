// Package peers has the proxies of a node find and answer each other, so that whichever of those that share a port is
// asked can answer for all of them, and none opens a port at which those of another IngressDaemonSet listen.
//
// Each listens at an abstract Unix socket. Such sockets are of a network, so that those of the pods on the host's network
// see each other's, without a folder that they share and without the API server. They have no owner: whoever listens at
// one under such a name is asked only where it is of the same user, and its answer is only as good as what is checked
// of it.
package peers

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"
)

const (
	// socketPrefix begins the names of these sockets: what they answer follows, and the key of the proxy.
	socketPrefix = "@ids-proxy-"
	// socketTable is where the kernel lists sockets, maxSocketTable how much of that is read.
	socketTable    = "/proc/net/unix"
	maxSocketTable = 32 << 20
	// Most are those whose answers are read, out of maxAsked that are asked at once: one that is frozen holds up nobody,
	// and processes of other users, which may listen under as many names as they like, take nobody's place.
	Most     = 64
	maxAsked = 1024
	// mostPod is how much of a pod's name its key has, which is all of one that a Deployment made: a socket's name has
	// 108 bytes.
	mostPod = 63
	// maxConnections are how many there may be at a time to whatever is served.
	maxConnections = 64
	// answering bounds how long whoever asks may take, and how long an answer.
	answering = 10 * time.Second
)

// keyForm is that of keys: as much of the pod's name as fits, and a number that no other process has.
var keyForm = regexp.MustCompile(`^[a-z0-9.-]{0,63}~[0-9a-f]{16}$`)

var noKey = regexp.MustCompile(`[^a-z0-9.-]`)

// NewKey is a key that no other process has.
func NewKey(pod string) string {
	var drawn [8]byte
	rand.Read(drawn[:])
	return keyOf(pod, drawn)
}

func keyOf(pod string, number [8]byte) string {
	pod = noKey.ReplaceAllString(pod, "-")
	return pod[:min(len(pod), mostPod)] + "~" + hex.EncodeToString(number[:])
}

// PodOf is what a key has of the pod's name.
func PodOf(key string) string {
	pod, _, _ := strings.Cut(key, "~")
	return pod
}

// Peers are the proxies of a node that answer the same, this one among them.
type Peers struct {
	// Own is the key of this one.
	Own string
	// Table is the file in which the kernel lists sockets.
	Table string
	// User is whose processes are believed to be proxies.
	User int
	// Patience is how long each may take.
	Patience time.Duration
	// prefix begins the names of their sockets.
	prefix string
}

// New are those that answer what is named, in a few letters. This one is of the pod.
func New(what, pod string, patience time.Duration) *Peers {
	return &Peers{Own: NewKey(pod), Table: socketTable, User: os.Geteuid(), Patience: patience, prefix: socketPrefix + what + "/"}
}

// Socket is the name of the socket of a key.
func (p *Peers) Socket(key string) string { return p.prefix + key }

// Answer answers the other ones until the context ends.
func (p *Peers) Answer(ctx context.Context, h http.Handler) error {
	l, err := p.listen(ctx)
	if err != nil {
		return err
	}
	return Serve(ctx, l, h)
}

func (p *Peers) listen(ctx context.Context) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "unix", p.Socket(p.Own))
	if err != nil {
		return nil, fmt.Errorf("listening for the other proxies of the node: %w", err)
	}
	return ofUser{l, p.User}, nil
}

// Serve serves until the context ends, or the listener fails. It is for what processes of a node share: each
// connection is for one request, since whoever was led to a process that is frozen is led to another the next time.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadTimeout: answering, WriteTimeout: answering, MaxHeaderBytes: 32 << 10}
	s.SetKeepAlivesEnabled(false)
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := s.Serve(netutil.LimitListener(l, maxConnections)); ctx.Err() == nil {
		return err
	}
	return nil
}

// others are the keys of the other ones that listen.
func (p *Peers) others() ([]string, error) {
	f, err := os.Open(p.Table)
	if err != nil {
		return nil, fmt.Errorf("looking for the other proxies of the node: %w", err)
	}
	defer f.Close()
	keys := keysIn(io.LimitReader(f, maxSocketTable), p.prefix)
	return slices.DeleteFunc(keys, func(key string) bool { return key == p.Own }), nil
}

// keysIn are keys of proxies that listen, by the kernel's table: for each socket a line, of which the fourth field
// says whether it listens, and the eighth is its name, if it has one.
func keysIn(table io.Reader, prefix string) (keys []string) {
	const listens = "00010000"
	for lines := bufio.NewScanner(table); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 8 || fields[3] != listens {
			continue
		}
		if key, ours := strings.CutPrefix(fields[7], prefix); ours && keyForm.MatchString(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	return keys[:min(len(keys), maxAsked)]
}

// Answer is what another one answers, or why it does not.
type Answer struct {
	Key     string
	Content []byte
	Err     error
}

// AskAll has all other ones answer at once, with most bytes each, and takes their answers one by one. Processes of other
// users are not among them. The error says why none could be found.
func (p *Peers) AskAll(ctx context.Context, target string, most int, take func(Answer)) error {
	keys, err := p.others()
	places := make(chan struct{}, Most)
	var taking sync.Mutex
	var all sync.WaitGroup
	for _, key := range keys {
		all.Go(func() {
			content, err := p.ask(ctx, key, target, most, places)
			if errors.Is(err, errOtherUser) {
				return
			}
			taking.Lock()
			defer taking.Unlock()
			take(Answer{key, content, err})
		})
	}
	all.Wait()
	return err
}

// Ask has another one answer, with most bytes.
func (p *Peers) Ask(ctx context.Context, key, target string, most int) ([]byte, error) {
	return p.ask(ctx, key, target, most, make(chan struct{}, 1))
}

// ask reads an answer where there is a place for it.
func (p *Peers) ask(ctx context.Context, key, target string, most int, places chan<- struct{}) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Patience)
	defer cancel()
	client := http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 32 << 10,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dial(ctx, key) },
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://proxy"+target, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, p.inWords(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %d", response.StatusCode)
	}
	select {
	case places <- struct{}{}:
	default:
		return nil, errTooMany
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, int64(most)+1))
	switch {
	case err != nil:
		return nil, p.inWords(err)
	case len(content) > most:
		return nil, ErrTooMuch
	}
	return content, nil
}

// ErrTooMuch is of one that answers with more than is read.
var ErrTooMuch = errors.New("it answers too much")

var errTooMany = errors.New("too many answer")

func (p *Peers) inWords(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("it does not answer within %s", p.Patience)
	}
	if of, is := errors.AsType[*url.Error](err); is {
		return of.Err
	}
	return err
}

func (p *Peers) dial(ctx context.Context, key string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", p.Socket(key))
	if err != nil {
		return nil, err
	}
	if err := checkUser(conn, p.User); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// ofUser takes in processes of one user.
type ofUser struct {
	net.Listener
	user int
}

// Accept closes the connections of others.
func (l ofUser) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if checkUser(conn, l.user) == nil {
			return conn, nil
		}
		conn.Close()
	}
}

var errOtherUser = errors.New("it is of another user, and is not asked")

// checkUser is an error where the other end is of another user.
func checkUser(conn net.Conn, user int) error {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var of *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { of, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	switch {
	case cmp.Or(err, failed) != nil:
		return fmt.Errorf("asking whose socket it is: %w", cmp.Or(err, failed))
	case int(of.Uid) != user:
		return errOtherUser
	}
	return nil
}
