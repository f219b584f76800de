package console

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
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

	"golang.org/x/sys/unix"
)

// Each proxy listens at an abstract Unix socket. Such sockets are of a network, so that those of the pods on the
// host's network see each other's, without a folder that they share and without the API server. They have no
// owner: whoever listens at one under such a name is asked only where it is of the same user, and its answer is
// believed as far as it is shown.
const (
	// socketPrefix begins the names of these sockets, the key of the proxy follows.
	socketPrefix = "@ids-proxy-console/"
	// socketTable is where the kernel lists sockets, maxSocketTable how much of that is read.
	socketTable    = "/proc/net/unix"
	maxSocketTable = 32 << 20
	// maxPeers are shown, out of maxAsked that are asked, in peerPatience: one that is frozen holds up nobody, and
	// processes of other users, which may listen under as many names as they like, take nobody's place.
	maxPeers     = 64
	maxAsked     = 1024
	peerPatience = time.Second
	// maxProcess bounds what one may say of itself in short, maxValues how many values of JSON one may say at all: what
	// we say is a tenth of that, and a few bytes can be a value that takes hundreds.
	maxProcess = 64 << 10
	maxValues  = 200_000
	// mostPod is how much of a pod's name its key has: a socket's name has 108 bytes.
	mostPod = 60
)

// keyForm is that of keys: as much of the pod's name as fits, and a number that no other process has.
var keyForm = regexp.MustCompile(`^[a-z0-9.-]{0,60}~[0-9a-f]{16}$`)

var noKey = regexp.MustCompile(`[^a-z0-9.-]`)

func newKey(pod string) string {
	pod = noKey.ReplaceAllString(pod, "-")
	var drawn [8]byte
	rand.Read(drawn[:])
	return pod[:min(len(pod), mostPod)] + "~" + hex.EncodeToString(drawn[:])
}

// podOf is what a key has of the pod's name.
func podOf(key string) string {
	pod, _, _ := strings.Cut(key, "~")
	return pod
}

// peers are the proxies of the node, this one among them.
type peers struct {
	// own is the key of this one, table the file in which the kernel lists sockets.
	own, table string
	// user is whose processes are believed to be proxies.
	user int
	// patience is how long each may take.
	patience time.Duration
}

func (p *peers) listen(ctx context.Context) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "unix", socketPrefix+p.own)
	if err != nil {
		return nil, fmt.Errorf("listening for the other proxies of the node: %w", err)
	}
	return ofUser{l, p.user}, nil
}

// others are the keys of the other ones that listen.
func (p *peers) others() ([]string, error) {
	f, err := os.Open(p.table)
	if err != nil {
		return nil, fmt.Errorf("looking for the other proxies of the node: %w", err)
	}
	defer f.Close()
	keys := keysIn(io.LimitReader(f, maxSocketTable))
	return slices.DeleteFunc(keys, func(key string) bool { return key == p.own }), nil
}

// keysIn are keys of proxies that listen, by the kernel's table: for each socket a line, of which the fourth field
// says whether it listens, and the eighth is its name, if it has one.
func keysIn(table io.Reader) (keys []string) {
	const listens = "00010000"
	for lines := bufio.NewScanner(table); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 8 || fields[3] != listens {
			continue
		}
		if key, ours := strings.CutPrefix(fields[7], socketPrefix); ours && keyForm.MatchString(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	return keys[:min(len(keys), maxAsked)]
}

// all are the proxies of the node, own is this one: by the names of their pods, each with what it answers, or why
// it does not. Where there are too many, those that answer come first. The error says why no other one could be found.
func (p *peers) all(ctx context.Context, own Process) ([]Process, error) {
	keys, err := p.others()
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	var mu sync.Mutex
	var all []Process
	var wait sync.WaitGroup
	for _, key := range keys {
		wait.Go(func() {
			var told Process
			switch err := p.ask(ctx, key, "/process", maxProcess, &told); {
			case errors.Is(err, errOtherUser):
				return
			case err != nil:
				told = Process{Pod: podOf(key), Problem: cut(err.Error())}
			}
			told.Key = key
			mu.Lock()
			defer mu.Unlock()
			all = append(all, told)
		})
	}
	wait.Wait()
	byName := func(a, b Process) int { return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Key, b.Key)) }
	slices.SortFunc(all, func(a, b Process) int { return cmp.Or(cmp.Compare(a.Problem, b.Problem), byName(a, b)) })
	all = append(all[:min(len(all), maxPeers)], own)
	slices.SortFunc(all, byName)
	return all, err
}

// ask has another one answer, with most bytes.
func (p *peers) ask(ctx context.Context, key, target string, most int, into any) error {
	ctx, cancel := context.WithTimeout(ctx, p.patience)
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
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return p.inWords(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %d", response.StatusCode)
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, int64(most)+1))
	switch {
	case err != nil:
		return p.inWords(err)
	case len(content) > most, valuesIn(content) > maxValues:
		return errTooMuch
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

func (p *peers) inWords(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("it does not answer within %s", p.patience)
	}
	if of, is := errors.AsType[*url.Error](err); is {
		return of.Err
	}
	return err
}

func (p *peers) dial(ctx context.Context, key string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socketPrefix+key)
	if err != nil {
		return nil, err
	}
	if err := checkUser(conn, p.user); err != nil {
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
