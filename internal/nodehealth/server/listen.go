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

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

const (
	// maxConnections is how many connections may be open, long polls not counted.
	maxConnections = 512
	maxHeaderBytes = 8 << 10
	readTimeout    = 5 * time.Second
	// handshakeTime is how long a leaving listener still accepts after it was
	// turned away from: what had begun to connect before arrives within it.
	handshakeTime = 150 * time.Millisecond
	// answerTime is how long whoever has the port may take to say that it does.
	answerTime = 2 * time.Second
	// drainTime is how long requests under way may take after that.
	drainTime = 5 * time.Second
)

var errStranger = errors.New("the answer is not a health checker's")

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

// handOver sends new connections to another listener of the port, and reports whether one
// answered. The kernel numbers the listeners of a port in the order in which they came,
// and moves the last to the place of one that closes. So whoever leaves is number
// 0 and whoever takes over number 1, every time, unless more than two met: then
// the leaving one may be number 1, which shows in its own answer. Without any answer
// there may be nobody else, but if there is it is the first that was silent.
func (b *bounded) handOver() (taken bool, err error) {
	var silent []uint32
	for _, number := range []uint32{1, 0} {
		if err := steer(b.TCPListener, number); err != nil {
			return false, err
		}
		switch by, err := b.answers(); {
		case err != nil:
			silent = append(silent, number)
		case by != b.id:
			return true, nil
		}
	}
	if len(silent) > 0 {
		return false, steer(b.TCPListener, silent[0])
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

// headerID on an answer is the id of the process that gives it.
const headerID = "Ingress-Daemonset-Id"

// answers is the id of whoever answers a new connection to the port; an error where
// nobody does in time. The id is empty where that is a health checker of v0.1.0, which
// tells none: since this one tells its own in each answer, it is another one all the same.
func (b *bounded) answers() (id string, err error) {
	request, err := http.NewRequest(http.MethodHead, "http://"+b.Addr().String()+"/", nil)
	if err != nil {
		return "", err
	}
	request.Header.Set(v1alpha1.HeaderClient, "healthchecker")
	// No proxy.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: answerTime}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	response.Body.Close()
	if response.Header.Get("Etag") == "" {
		return "", errStranger
	}
	return response.Header.Get(headerID), nil
}

func control(conn syscall.RawConn, f func(fd int) error) error {
	var failed error
	err := conn.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

// vacant reports whether nobody holds the port, also none that would share it.
func vacant(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// Serve answers on the listener, which it closes, until ctx is done. Then it
// hands over to another listener of the same port, or where none answers goes on
// while pods of the node may ask to be held, since the node may be shutting down. It
// returns when all requests are answered.
func (r *Responder) Serve(ctx context.Context, l *net.TCPListener) error {
	server := http.Server{
		Handler:                      r,
		ConnContext:                  withConn,
		ConnState:                    r.noteEnd,
		DisableGeneralOptionsHandler: true,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 readTimeout + writeTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		ErrorLog:                     slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
	}
	server.SetKeepAlivesEnabled(false)
	defer r.countAsking()()
	b := &bounded{TCPListener: l, limit: maxConnections, id: r.id}
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
