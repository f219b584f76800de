// Package healthclient asks health-check ports: those of health checkers by their protocol
// (v1alpha1.HealthCheckAnswer), and plain ones, such as kube-proxy's, by their status alone.
// It is the one client of that protocol, so that whoever asks says who it is, bounds what it
// reads, and believes no other node.
//
// Thousands of questions wait for the first byte of an answer, each with a stack. Ask and
// Read need much of one and buffers; Wait, between them, needs neither.
package healthclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

const (
	// LongestWait is how long a question asks to wait for another verdict.
	LongestWait = 290 * time.Second
	// AnswerTime is how long a port may take to answer a question that does not wait, and
	// Silence how long one that shows signs of life may go without while a question waits.
	AnswerTime = 3 * time.Second
	Silence    = 2 * v1alpha1.LifeSeconds * time.Second
	// DialTimeout is how long a connection may take to open.
	DialTimeout = 3 * time.Second
	// connectionsTime is longer than a health checker takes to begin watching.
	connectionsTime = 5 * time.Second
	// mostSigns is more signs of life than a question can get that come as often as it asks for.
	mostSigns = 2 * (LongestWait + Silence) / (v1alpha1.LifeSeconds * time.Second)
	// signOfLife is an interim response to a question that waits.
	signOfLife = "HTTP/1.1 102 Processing\r\n\r\n"
)

// Port is one health-check port of one node.
type Port struct {
	Node, Address string
	Number        int32
	// Plain says whether nothing but the status of its answers says anything.
	Plain bool
}

// Known is what an answer tells for the next question to its port.
type Known struct {
	// ETag is that of the verdict: a question with it waits for another. It is empty before
	// the first answer and after one that has none.
	ETag string
	// Alive says whether the port shows signs of life while a question waits.
	Alive bool
}

// Patience is how long a question may go without an answer or a sign of life. Health
// checkers of v0.1.0 show none.
func (k Known) Patience() time.Duration {
	switch {
	case k.ETag == "":
		return AnswerTime
	case k.Alive:
		return Silence
	}
	return LongestWait + 10*time.Second
}

// Question is one that was asked over a connection of its own, as most load balancers ask.
type Question struct {
	port *Port
	conn net.Conn
	// release has the end of the context close the connection no more.
	release func() bool
	// waits says whether signs of life may come before the answer.
	waits bool
	// head is the beginning of the answer, of which so many bytes came.
	head [len(signOfLife)]byte
	came uint8
}

// Ask asks for the verdict, or where one is known for another. The question is open until
// Close, or until the context ends.
func (p *Port) Ask(ctx context.Context, known Known) (*Question, error) {
	if known.ETag == "" {
		return p.send(ctx, "/", "", known.Patience())
	}
	wait := fmt.Sprintf("If-None-Match: %s\r\nPrefer: wait=%d\r\n%s: %d\r\n",
		known.ETag, int(LongestWait.Seconds()), v1alpha1.HeaderLife, v1alpha1.LifeSeconds)
	return p.send(ctx, "/", wait, known.Patience())
}

// Connections asks for the connections to the ingress ports of the node. An answer that
// does not name the node says nothing of it.
func (p *Port) Connections(ctx context.Context) ([]v1alpha1.PortConnections, error) {
	ctx, cancel := context.WithTimeout(ctx, connectionsTime)
	defer cancel()
	question, err := p.send(ctx, "/?connections", "", connectionsTime)
	if err != nil {
		return nil, err
	}
	defer question.Close()
	if err := question.Wait(); err != nil {
		return nil, err
	}
	answer, err := question.Read()
	switch {
	case err != nil:
		return nil, err
	case answer.Node == "":
		return nil, fmt.Errorf("what answers at the address of node %s names no node", p.Node)
	}
	return answer.Connections, nil
}

// send connects and writes the request. Headers end with a line break.
func (p *Port) send(ctx context.Context, path, headers string, patience time.Duration) (*Question, error) {
	if p.Address == "" {
		// To dial no address would be to ask ourselves.
		return nil, errors.New("the node has no address")
	}
	dialer := net.Dialer{Timeout: DialTimeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 5 * time.Second, Interval: 3 * time.Second, Count: 3}}
	address := net.JoinHostPort(p.Address, strconv.Itoa(int(p.Number)))
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("dialing: %w", err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	request := "GET " + path + " HTTP/1.1\r\nHost: " + address + "\r\nUser-Agent: ingress-daemonset-controller\r\n" +
		v1alpha1.HeaderClient + ": controller\r\n" + headers + "Connection: close\r\n\r\n"
	if _, err := io.WriteString(conn, request); err != nil {
		conn.Close()
		return nil, fmt.Errorf("asking: %w", err)
	}
	release := context.AfterFunc(ctx, func() { conn.Close() })
	return &Question{port: p, conn: conn, release: release, waits: headers != ""}, nil
}

// Wait returns when the answer begins. Signs of life may come before it.
func (q *Question) Wait() error {
	end := time.Now().Add(LongestWait + Silence)
	for signs := 0; ; signs++ {
		n, err := io.ReadFull(q.conn, q.head[:])
		q.came = uint8(n)
		switch {
		case signs > int(mostSigns):
			return errors.New("it shows signs of life without end")
		case err == nil && q.waits && string(q.head[:]) == signOfLife && time.Now().Before(end):
			_ = q.conn.SetDeadline(time.Now().Add(Silence))
		case err == nil, n > 0 && errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		default:
			return fmt.Errorf("reading: %w", err)
		}
	}
}

// Close closes the connection.
func (q *Question) Close() {
	q.release()
	q.conn.Close()
}
