package forward

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

const dialTimeout = 5 * time.Second

type tcpListener struct {
	socket   cloud.Socket
	listener *net.TCPListener
}

func (p *Plane) listen(s cloud.Socket) (*tcpListener, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false) // so that flows are spliced
	l, err := config.Listen(context.Background(), "tcp", s.Address)
	if err != nil {
		return nil, err
	}
	t := &tcpListener{s, l.(*net.TCPListener)}
	go func() {
		for {
			client, err := t.listener.AcceptTCP()
			if err != nil {
				return
			}
			go p.serve(s, client)
		}
	}()
	return t, nil
}

// flow is one connection of a client and the one that was opened to a target for it.
type flow struct {
	lease  cloud.Lease
	opened time.Time

	mu    sync.Mutex
	ended bool // nothing may be added any more
	conns []*net.TCPConn
}

// add gives the flow a connection, and is false if the flow was reset before.
func (f *flow) add(conn *net.TCPConn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		reset(conn)
		return false
	}
	f.conns = append(f.conns, conn)
	return true
}

// reset ends the flow with an RST to both ends. It is false if the flow was reset before.
func (f *flow) reset() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return false
	}
	f.ended = true
	for _, conn := range f.conns {
		reset(conn)
	}
	return true
}

func reset(conn *net.TCPConn) {
	conn.SetLinger(0)
	conn.Close()
}

// serve carries one client's connection. It ends when both ends have closed, or with a
// reset at either.
func (p *Plane) serve(s cloud.Socket, client *net.TCPConn) {
	now := time.Now()
	lease, found := p.cloud.Pick(s, client.RemoteAddr().String(), now)
	if !found {
		p.truth.refused(s)
		reset(client)
		return
	}
	f := &flow{lease: lease, opened: now}
	p.enter(f)
	defer p.leave(f)
	if !f.add(client) {
		return
	}
	conn, err := net.DialTimeout("tcp", lease.Address, dialTimeout)
	if err != nil {
		p.truth.failed(lease)
		f.reset()
		return
	}
	target := conn.(*net.TCPConn)
	if !f.add(target) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { f.copy(target, client) })
	both.Go(func() { f.copy(client, target) })
	both.Wait()
	client.Close()
	target.Close()
}

// copy carries one direction, its end included.
func (f *flow) copy(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		f.reset()
		return
	}
	to.CloseWrite()
}

func (p *Plane) enter(f *flow) {
	p.truth.opened(f.lease, f.opened)
	p.flowing.Lock()
	defer p.flowing.Unlock()
	if p.flows[f.lease.Number] == nil {
		p.flows[f.lease.Number] = map[*flow]bool{}
	}
	p.flows[f.lease.Number][f] = true
}

func (p *Plane) leave(f *flow) {
	p.truth.closed(f.lease)
	p.flowing.Lock()
	defer p.flowing.Unlock()
	delete(p.flows[f.lease.Number], f)
	if len(p.flows[f.lease.Number]) == 0 {
		delete(p.flows, f.lease.Number)
	}
}
