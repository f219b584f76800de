package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxConnections is how many connections may be open, long polls not counted.
	maxConnections = 512
	maxHeaderBytes = 8 << 10
	readTimeout    = 5 * time.Second
	// handshakeTime is how long a leaving listener still accepts after it was
	// turned away from: what had begun to connect before arrives within it.
	handshakeTime = 150 * time.Millisecond
	// acceptTime is how long a listener may take to accept a connection.
	acceptTime = 50 * time.Millisecond
	// drainTime is how long requests under way may take after that.
	drainTime = 5 * time.Second
)

// Listen opens a TCP port that other checkers of the same user may hold too
// (SO_REUSEPORT), so that one version can take over from another. Address is
// host:port; without a host it is all addresses, IPv4 and IPv6.
func Listen(ctx context.Context, address string) (*net.TCPListener, error) {
	config := net.ListenConfig{Control: share}
	// Multipath TCP, Go's default, refuses the program that handOver attaches.
	config.SetMultipathTCP(false)
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("opening the health-check port: %w", err)
	}
	return l.(*net.TCPListener), nil
}

func share(_, _ string, conn syscall.RawConn) error {
	return control(conn, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
}

// handOver sends new connections to another listener of the port, and is whether there
// is one. The kernel numbers the listeners of a port in the order in which they came,
// and moves the last to the place of one that closes. So whoever leaves is number
// 0 and whoever takes over number 1, every time, unless more than two met: then
// the leaving one may be number 1, which shows in a connection of its own.
func (b *bounded) handOver() (taken bool, err error) {
	for _, number := range []uint32{1, 0} {
		if err := steer(b.TCPListener, number); err != nil {
			return false, err
		}
		if !b.reaches() {
			return true, nil
		}
	}
	return false, nil
}

// takeOver sends new connections to this listener, where one other has the port too: it
// came last and knows no less. Otherwise the two would take turns, and one could
// acknowledge a mark while the other, which has not seen it, tells the load balancer 200.
func (b *bounded) takeOver() error { return steer(b.TCPListener, 1) }

// steer makes the kernel give new connections of the port to the listener of that
// number. Where there is none it goes on as it did.
func steer(l *net.TCPListener, number uint32) error {
	program := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: number}
	conn, err := l.SyscallConn()
	if err == nil {
		err = control(conn, func(fd int) error {
			return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF,
				&unix.SockFprog{Len: 1, Filter: &program})
		})
	}
	if err != nil {
		return fmt.Errorf("handing over the health-check port: %w", err)
	}
	return nil
}

// reaches is whether a new connection to the port comes to this listener.
func (b *bounded) reaches() bool {
	conn, err := net.DialTimeout("tcp", b.Addr().String(), handshakeTime)
	if err != nil {
		return false
	}
	defer conn.Close()
	for end := time.Now().Add(acceptTime); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if b.has(conn.LocalAddr().String()) {
			return true
		}
	}
	return false
}

func control(conn syscall.RawConn, f func(fd int) error) error {
	var failed error
	err := conn.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

// vacant is whether nobody holds the port, also none that would share it.
func vacant(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// Serve answers on the listener, which it closes, until ctx is done. Then it
// hands over to another listener of the same port, or where there is none goes on
// while pods of the node may ask to be held, since the node may be shutting down. It
// returns when all requests are answered.
func (r *Responder) Serve(ctx context.Context, l *net.TCPListener) error {
	server := http.Server{
		Handler:                      r,
		DisableGeneralOptionsHandler: true,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 readTimeout + writeTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		ErrorLog:                     slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
	}
	server.SetKeepAlivesEnabled(false)
	defer r.countAsking()()
	b := &bounded{TCPListener: l, limit: maxConnections}
	ended := make(chan error, 1)
	if err := b.takeOver(); err != nil {
		r.log.Warn("Another health checker on the port would answer too", "error", err)
	}
	go func() { ended <- server.Serve(b) }()
	select {
	case err := <-ended:
		r.closePolls()
		return fmt.Errorf("answering health checks: %w", err)
	case <-ctx.Done():
	}
	taken, err := b.handOver()
	if !taken {
		r.outlast()
		_, err = b.handOver()
	}
	time.Sleep(handshakeTime)
	r.closePolls()
	b.Close()
	<-ended
	r.drain(&server, b)
	r.waitForDrains()
	return err
}

// drain lets clients that have connected finish. The HTTP server's own Shutdown
// would close connections of which the request is read only then.
func (r *Responder) drain(server *http.Server, b *bounded) {
	for end := time.Now().Add(drainTime); b.inUse() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if err := server.Close(); err != nil {
		r.log.Warn("Connections could not be closed", "error", err)
	}
}
