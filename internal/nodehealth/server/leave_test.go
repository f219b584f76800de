package server

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
)

// TestHooksAreAnsweredWhileACheckerLeaves answers hooks at the very moment at which a
// leaving checker waits for the answers to long polls. None may be lost by it.
func TestHooksAreAnsweredWhileACheckerLeaves(t *testing.T) {
	for range 3000 {
		r := NewResponder(quiet)
		var clients sync.WaitGroup
		wait := func() poll {
			here, there := net.Pipe()
			clients.Go(func() {
				defer there.Close()
				if n, err := there.Read(make([]byte, 4096)); n == 0 {
					t.Errorf("no answer: %v", err)
				}
			})
			return poll{conn: here, method: "GET", timer: time.NewTimer(time.Hour)}
		}
		first := wait()
		r.polls[&first] = struct{}{}
		for range 4 {
			r.drains.waiting[&drain{poll: wait(), asked: time.Now().Add(-time.Hour)}] = struct{}{}
		}
		clients.Go(func() { r.Update(nodehealth.State{}) })
		r.closePolls()
		r.waitForDrains()
		clients.Wait()
	}
}
