package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/stage"
)

// On the host network the load balancer asks the health-check node port; in the
// controls it asks the proxy itself, which knows nothing of a mark.
var (
	hostTold   = stage.Ports{Traffic: 80, Check: 10080}
	hostUntold = stage.Ports{Traffic: 80, Check: 10254, Path: "/healthz"}
)

func TestHostNetwork(t *testing.T) {
	scenario{example: "nginx.yaml", told: hostTold, untold: hostUntold}.play(t)
}

func TestHostNetworkCaddy(t *testing.T) {
	scenario{example: "caddy.yaml", told: hostTold, untold: hostUntold}.play(t)
}

func TestNodePort(t *testing.T) {
	scenario{
		example: "nodeport.yaml",
		told:    stage.Ports{Traffic: 30080, Check: 10080},
		untold:  stage.Ports{Traffic: 30080, Check: 30080},
	}.play(t)
}

// TestService has kube-proxy answer the load balancer's health checks.
func TestService(t *testing.T) {
	scenario{
		example: "service.yaml",
		told:    stage.Ports{Traffic: 30080, Check: 30081},
		untold:  stage.Ports{Traffic: 30080, Check: 30080},
	}.play(t)
}

// TestNodeDetacher has the load balancer ask the proxy itself: only the detacher
// takes nodes out.
func TestNodeDetacher(t *testing.T) {
	scenario{
		example: "node-detacher.yaml", told: hostUntold, untold: hostUntold, detacher: true,
	}.play(t)
}

// TestRollback goes back to the first template while a node is under way.
func TestRollback(t *testing.T) {
	scenario{
		example: "haproxy.yaml", told: hostTold, untold: hostUntold, final: "1",
		during: func(ctx context.Context, _ *testing.T, fleet *stage.Fleet) error {
			if err := fleet.WaitUpdated(ctx, 2); err != nil {
				return err
			}
			return fleet.Change(ctx, stage.SetVersion("1"))
		},
	}.play(t)
}

// longestTakeover is how long a rollout may wait for another leader.
const longestTakeover = 20 * time.Second

// TestControllerKilled kills the leading controller at random moments, and the one
// that takes over.
func TestControllerKilled(t *testing.T) {
	scenario{
		example: "haproxy.yaml", told: hostTold, untold: hostUntold,
		during: func(ctx context.Context, t *testing.T, fleet *stage.Fleet) error {
			leader, err := fleet.Leader(ctx, "")
			for range 2 {
				if err != nil {
					return err
				}
				pause(ctx, time.Second, 8*time.Second)
				if err := fleet.KillController(ctx, leader); err != nil {
					return err
				}
				killed := time.Now()
				if leader, err = fleet.Leader(ctx, leader); err != nil {
					return err
				}
				took := time.Since(killed)
				t.Logf("%s took over after %.1f s", leader, took.Seconds())
				if took >= longestTakeover {
					t.Errorf("the rollout had no leader for %s", took)
				}
			}
			return nil
		},
	}.play(t)
}

// TestAPIServerDown stops the API server for a minute while a node is under way.
func TestAPIServerDown(t *testing.T) {
	scenario{
		example: "nginx.yaml", told: hostTold, untold: hostUntold,
		during: func(ctx context.Context, t *testing.T, fleet *stage.Fleet) error {
			if err := fleet.WaitUpdated(ctx, 1); err != nil {
				return err
			}
			if err := fleet.StopAPIServer(ctx); err != nil {
				return err
			}
			time.Sleep(time.Minute)
			return fleet.StartAPIServer(ctx)
		},
	}.play(t)
}
