package aws

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/api"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/forward"
)

// Verdict is what the health checks of a target come to, in a group that sends none.
type Verdict struct {
	Group       string `json:"group"` // its name
	ID          string `json:"id"`
	Port        int    `json:"port"`  // 0 of a classic load balancer
	State       string `json:"state"` // healthy, unhealthy or unavailable
	Reason      string `json:"reason,omitempty"`
	Description string `json:"description,omitempty"`
}

// ZonalShift is a load balancer, by its name, that is shifted away from a zone; "" ends that.
type ZonalShift struct {
	Balancer string `json:"balancer"`
	Zone     string `json:"zone"`
}

// Truth is where traffic really went. The API never says it.
type Truth struct {
	Targets []forward.Traffic `json:"targets"`
	Refused map[string]int    `json:"refused,omitempty"` // connections without a target, by the address that they came to
}

// admin is the interface for tests: plain HTTP and JSON.
func (s *Server) admin() http.Handler {
	mux, c := http.NewServeMux(), s.api.Cloud
	change(mux, "PUT /instances", func(i cloud.Instance) error { return c.PutInstance(i, time.Now()) })
	change(mux, "PUT /target-groups", c.PutTargetGroup)
	change(mux, "PUT /load-balancers", func(b cloud.LoadBalancer) error { return s.applied(c.PutLoadBalancer(b, time.Now())) })
	change(mux, "PUT /classic-load-balancers", func(b cloud.ClassicLoadBalancer) error { return s.applied(c.PutClassicLoadBalancer(b, time.Now())) })
	change(mux, "PUT /faults", func(faults []api.Fault) error { return s.api.Faults.Set(faults, time.Now()) })
	change(mux, "PUT /lags", c.SetLags)
	change(mux, "PUT /limits", s.api.SetLimits)
	change(mux, "PUT /zonal-shift", func(z ZonalShift) error { return c.ShiftZone(z.Balancer, z.Zone, time.Now()) })
	change(mux, "POST /health", func(v Verdict) error {
		return c.Judge(v.Group, v.ID, v.Port, v.State, v.Reason, v.Description, time.Now())
	})
	mux.HandleFunc("DELETE /target-groups/{name}", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, c.DeleteTargetGroup(r.PathValue("name")))
	})
	mux.HandleFunc("DELETE /load-balancers/{name}", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, s.applied(c.DeleteLoadBalancer(r.PathValue("name"))))
	})
	show(mux, "GET /target-groups", func(*http.Request) any { return c.Groups() })
	show(mux, "GET /load-balancers", func(*http.Request) any { return append(c.Balancers(false), c.Balancers(true)...) })
	show(mux, "GET /truth", func(*http.Request) any { return Truth{s.plane.Targets(), s.plane.Refused()} })
	show(mux, "GET /grants/unused", func(*http.Request) any { return s.api.Access.Unused() })
	show(mux, "GET /calls", func(r *http.Request) any { return s.api.Calls.After(after(r)) })
	show(mux, "GET /draws", func(r *http.Request) any { return c.Draws(after(r)) })
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, s.api.Calls.Metrics()) })
	return mux
}

// after is how many of a list a client knows.
func after(r *http.Request) int {
	n, _ := strconv.Atoi(r.FormValue("after"))
	return n
}

// applied makes the data plane follow a change that was made.
func (s *Server) applied(err error) error {
	if err != nil {
		return err
	}
	return s.plane.Apply()
}

// change handles a request that changes something, which is its body.
func change[T any](mux *http.ServeMux, pattern string, do func(T) error) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var body T
		decoder := json.NewDecoder(r.Body)
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&body)
		if err == nil {
			err = do(body)
		}
		refuse(w, err)
	})
}

func refuse(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func show(mux *http.ServeMux, pattern string, what func(*http.Request) any) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(what(r))
	})
}
