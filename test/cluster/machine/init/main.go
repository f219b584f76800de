// Command init is the first process of a machine of the local cluster. It sets the machine up from
// inside, runs its services, and ends all of them by ending. Package machine
// starts it; it is of no use by hand.
package main

import (
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"syscall"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
)

// The files that machine.Boot hands over.
const (
	connectedFD = 3
	listenerFD  = 4
)

func main() {
	var err error
	switch {
	case len(os.Args) == 2:
		err = setUp(os.Args[1])
	case len(os.Args) == 3 && os.Args[2] == "serve":
		err = serve(os.Args[1])
	default:
		err = errors.New("usage: init MACHINE_DIR")
	}
	log.Fatal(err)
}

// setUp makes the machine and then becomes the process that serves it.
// Namespaces belong to threads; in the program that is executed last, every
// thread has those that this one has entered.
func setUp(dir string) error {
	runtime.LockOSThread()
	spec, err := machine.ReadSpec(dir)
	if err != nil {
		return err
	}
	if err := waitUntilConnected(); err != nil {
		return err
	}
	if spec.Isolated {
		if err := isolate(spec); err != nil {
			return err
		}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(program, []string{program, dir, "serve"}, os.Environ())
}

func waitUntilConnected() error {
	connected := os.NewFile(connectedFD, "connected")
	defer connected.Close()
	if _, err := connected.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("wait until connected: %w", err)
	}
	return nil
}

// serve runs the machine's services for as long as the machine is on.
func serve(dir string) error {
	spec, err := machine.ReadSpec(dir)
	if err != nil {
		return err
	}
	if spec.ForwardTo != "" {
		if err := forward(listenerFD, spec.ForwardTo); err != nil {
			return err
		}
	}
	control, err := listenControl(dir)
	if err != nil {
		return err
	}
	services := supervise(spec.Services)
	return http.Serve(control, services.handler())
}

// listenControl listens by a relative path, because the address of a Unix
// socket is at most 108 bytes long.
func listenControl(dir string) (net.Listener, error) {
	if err := os.Chdir(dir); err != nil {
		return nil, err
	}
	_ = os.Remove(machine.ControlSocket)
	return net.Listen("unix", machine.ControlSocket)
}
