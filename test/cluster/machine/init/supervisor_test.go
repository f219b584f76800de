package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
)

func TestServices(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	s := supervise([]machine.Service{
		{Name: "steady", Path: "/bin/sleep", Args: []string{"1000"}, Log: log},
		{Name: "crashing", Path: "/bin/false", Log: log},
		{Name: "missing", Path: "/does/not/exist", Log: log},
		{Name: "waiting", Path: "/bin/sleep", Args: []string{"1000"}, Log: log, After: "/does/not/exist"},
	})
	server := httptest.NewServer(s.handler())
	defer server.Close()
	post := func(path string) int {
		response, err := http.Post(server.URL+path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}

	until(t, func() bool { return s.status()[0].PID != 0 && s.status()[1].Restarts > 1 })
	for _, status := range s.status()[2:] {
		if status.PID != 0 {
			t.Errorf("%s runs", status.Name)
		}
	}
	first := s.status()[0].PID
	post("/services/steady/stop")
	if pid := s.status()[0].PID; pid != 0 {
		t.Errorf("stopped, and still process %d", pid)
	}
	post("/services/steady/start")
	until(t, func() bool { pid := s.status()[0].PID; return pid != 0 && pid != first })
	post("/services/steady/stop")
	if code := post("/services/nonsense/stop"); code != http.StatusNotFound {
		t.Errorf("stopping an unknown service gives %d", code)
	}
}

func until(t *testing.T, check func() bool) {
	t.Helper()
	for range 100 {
		if check() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("not within 5 s")
}
