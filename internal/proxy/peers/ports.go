package peers

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"
)

const (
	// findingOut is how long it may take to reach one that says that it listens.
	findingOut = time.Second
	// knownWithin is how soon others are told of ports that were open before it was known whose the proxy is.
	knownWithin = time.Second
)

// Ports opens ports that proxies of one IngressDaemonSet share, and those of two do not. The controller says which
// proxies have a port, of two IngressDaemonSets that there are; pods of one that is gone, or that leave a node, listen
// until they end, and only they know.
type Ports struct {
	// Pod is the proxy's, Set the name of its IngressDaemonSet, empty where that is not known: then it shares ports
	// with all, until it is.
	Pod string
	Set func() string
	// Open opens a port that processes of the user share.
	Open func(address string) (net.Listener, error)
	Log  *slog.Logger
}

// Listen opens the port of an address, unless a pod of another IngressDaemonSet listens there, and says to others that it
// does for as long as the port is open. It says so before it looks: of two that come at once none misses the other. Where
// one is there already it says nothing: that is tried again and again, and would keep those from the port that share it.
func (p Ports) Listen(address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	set := p.Set()
	if set == "" {
		return p.listenUnknown(address, port)
	}
	at := listeningAt(port, p.Pod, set)
	if pod, is, _ := at.ofAnotherSet(); is {
		return nil, errTaken(pod)
	}
	said, err := at.listen(context.Background())
	if err != nil {
		p.Log.Warn("other proxies of the node are not told of a port", "port", port, "error", err)
		return p.Open(address)
	}
	l, err := p.openBeside(at, address)
	if err != nil {
		said.Close()
		return nil, err
	}
	go letGo(said)
	return announced{l, said}, nil
}

// listenUnknown opens a port before it is known whose the proxy is, and says to others that it listens when it is: a
// replica of the controller that does not say so may be the first that tells it anything.
func (p Ports) listenUnknown(address, port string) (net.Listener, error) {
	l, err := p.Open(address)
	if err != nil {
		return nil, err
	}
	open, closed := context.WithCancel(context.Background())
	go p.sayLater(open, port)
	return unknown{l, closed}, nil
}

// sayLater says it until the context ends.
func (p Ports) sayLater(open context.Context, port string) {
	tick := time.NewTicker(knownWithin)
	defer tick.Stop()
	for p.Set() == "" {
		select {
		case <-tick.C:
		case <-open.Done():
			return
		}
	}
	said, err := listeningAt(port, p.Pod, p.Set()).listen(open)
	if err != nil {
		p.Log.Warn("other proxies of the node are not told of a port", "port", port, "error", err)
		return
	}
	defer context.AfterFunc(open, func() { said.Close() })()
	letGo(said)
}

func (p Ports) openBeside(at *Peers, address string) (net.Listener, error) {
	switch pod, is, err := at.ofAnotherSet(); {
	case err != nil:
		p.Log.Warn("whether others listen at a port is not known", "address", address, "error", err)
	case is:
		return nil, errTaken(pod)
	}
	return p.Open(address)
}

func errTaken(pod string) error {
	return fmt.Errorf("pod %s of another IngressDaemonSet listens there", pod)
}

// listeningAt are the proxies that listen at a port. Half of the number of their keys is a sum of the IngressDaemonSet's
// name.
func listeningAt(port, pod, set string) *Peers {
	p := New("port/"+port, pod, findingOut)
	sum := sha256.Sum256([]byte(set))
	var number [8]byte
	rand.Read(number[copy(number[:4], sum[:]):])
	p.Own = keyOf(pod, number)
	return p
}

func sumOf(key string) string {
	_, number, _ := strings.Cut(key, "~")
	return number[:8]
}

// ofAnotherSet is a pod of another IngressDaemonSet that listens.
func (p *Peers) ofAnotherSet() (pod string, is bool, err error) {
	keys, err := p.others()
	for _, key := range keys {
		if sumOf(key) != sumOf(p.Own) && p.listens(key) {
			return PodOf(key), true, nil
		}
	}
	return "", false, err
}

// listens reports whether a process of this user does. One of another cannot share a port, and whoever has ended
// meanwhile refuses: all else is somebody who listens, also one that is frozen.
func (p *Peers) listens(key string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), p.Patience)
	defer cancel()
	conn, err := p.dial(ctx, key)
	if err == nil {
		conn.Close()
	}
	return !errors.Is(err, errOtherUser) && !errors.Is(err, syscall.ECONNREFUSED)
}

// letGo lets whoever looks go: that somebody listens is the answer.
func letGo(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		conn.Close()
	}
}

// unknown is a port of which others are told once it is known whose the proxy is.
type unknown struct {
	net.Listener
	closed context.CancelFunc
}

func (l unknown) Close() error {
	defer l.closed()
	return l.Listener.Close()
}

// announced is a port of which others are told.
type announced struct {
	net.Listener
	said net.Listener
}

// Close says so when the port is free.
func (l announced) Close() error {
	return errors.Join(l.Listener.Close(), l.said.Close())
}
