package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
)

// restartDelay is how long a service that exited waits for its next start.
const restartDelay = time.Second

// supervisor keeps services running. As the first process of a process
// namespace it also inherits, and has to reap, every orphan in it.
type supervisor struct {
	mu       sync.Mutex
	services []*service
}

type service struct {
	machine.Service
	wanted   bool
	pid      int
	restarts int
	exited   chan struct{} // closed when the process of pid has ended
}

func supervise(specs []machine.Service) *supervisor {
	s := &supervisor{}
	for _, spec := range specs {
		s.services = append(s.services, &service{Service: spec})
	}
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	go func() {
		for range children {
			s.reap()
		}
	}()
	for _, svc := range s.services {
		s.start(svc)
	}
	return s
}

func (s *supervisor) start(svc *service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !svc.wanted {
		svc.wanted = true
		go s.launch(svc)
	}
}

func (s *supervisor) launch(svc *service) {
	waitFor(svc.After)
	// The lock is held over the fork, so that reap knows every child.
	s.mu.Lock()
	defer s.mu.Unlock()
	if !svc.wanted || svc.pid != 0 {
		return
	}
	pid, err := fork(svc.Service)
	if err != nil {
		log.Printf("start %s: %v", svc.Name, err)
		time.AfterFunc(restartDelay, func() { s.launch(svc) })
		return
	}
	svc.pid = pid
	svc.exited = make(chan struct{})
}

func waitFor(precondition string) {
	for !isThere(precondition) {
		time.Sleep(20 * time.Millisecond)
	}
}

func isThere(precondition string) bool {
	if precondition == "" {
		return true
	}
	if filepath.IsAbs(precondition) {
		_, err := os.Stat(precondition)
		return err == nil
	}
	connection, err := net.Dial("tcp", precondition)
	if err != nil {
		return false
	}
	connection.Close()
	return true
}

func fork(svc machine.Service) (pid int, err error) {
	output, err := os.OpenFile(svc.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer output.Close()
	input, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer input.Close()
	return syscall.ForkExec(svc.Path, append([]string{svc.Path}, svc.Args...), &syscall.ProcAttr{
		Env:   append(os.Environ(), svc.Env...),
		Files: []uintptr{input.Fd(), output.Fd(), output.Fd()},
	})
}

func (s *supervisor) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err != nil || pid <= 0 {
			return
		}
		for _, svc := range s.services {
			if svc.pid == pid {
				s.ended(svc, status)
			}
		}
	}
}

func (s *supervisor) ended(svc *service, status syscall.WaitStatus) {
	svc.pid = 0
	close(svc.exited)
	if !svc.wanted {
		return
	}
	svc.restarts++
	log.Printf("%s ended with code %d, signal %d; starting it again", svc.Name, status.ExitStatus(), status.Signal())
	time.AfterFunc(restartDelay, func() { s.launch(svc) })
}

func (s *supervisor) stop(svc *service) {
	s.mu.Lock()
	svc.wanted = false
	pid, exited := svc.pid, svc.exited
	if pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	s.mu.Unlock()
	if pid != 0 {
		<-exited
	}
}

func (s *supervisor) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /services", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(s.status())
	})
	mux.HandleFunc("POST /services/{name}/start", s.each(s.start))
	mux.HandleFunc("POST /services/{name}/stop", s.each(s.stop))
	return mux
}

func (s *supervisor) each(do func(*service)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, svc := range s.services {
			if svc.Name == r.PathValue("name") {
				do(svc)
				return
			}
		}
		http.Error(w, fmt.Sprintf("there is no service %q", r.PathValue("name")), http.StatusNotFound)
	}
}

func (s *supervisor) status() []machine.ServiceStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []machine.ServiceStatus
	for _, svc := range s.services {
		all = append(all, machine.ServiceStatus{Name: svc.Name, PID: svc.pid, Restarts: svc.restarts})
	}
	return all
}
