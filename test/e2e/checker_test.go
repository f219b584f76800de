package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/stage"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestNewVersionOfTheController installs a controller with another image, whose
// health checkers replace the old ones: every health-check port is asked ten
// times a second and never misses an answer or fails, and no proxy is restarted.
func TestNewVersionOfTheController(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	fleet := scenario{example: "nginx.yaml"}.open(ctx, t)
	before, err := fleet.Pods(ctx)
	if err != nil {
		t.Fatal(err)
	}
	asked := startPoll(ctx, 10080)
	const next = "docker.io/mumoshu/ingress-daemonset-controller:next"
	if err := theStage.PushImage(ctx, next, filepath.Join(theStage.Dir(), "ingress-daemonset-controller.tar")); err != nil {
		t.Fatal(err)
	}
	if err := theStage.UseImage(ctx, next); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := theStage.UseImage(context.Background(), stage.Image); err != nil {
			t.Error(err)
		}
	})
	if err := checkersRun(ctx, fleet, next); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	answers, failures := asked.stop()
	t.Logf("%d answers", answers)
	if len(failures) > 0 {
		t.Errorf("%d answers were missed, first %s", len(failures), failures[0])
	}
	after, err := fleet.Pods(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for uid, pod := range before {
		if after[uid] == nil || restarts(after[uid]) != restarts(pod) {
			t.Errorf("the new version of the controller restarted %s", pod.Name)
		}
	}
}

// checkersRun waits until every health checker runs an image.
func checkersRun(ctx context.Context, fleet *stage.Fleet, image string) error {
	ds := &appsv1.DaemonSet{}
	return stage.Wait(ctx, "the health checkers to run "+image, func() (bool, error) {
		err := theStage.Get(ctx, types.NamespacedName{Namespace: fleet.Key.Namespace, Name: fleet.Key.Name + "-10080"}, ds)
		s := ds.Status
		return err == nil && ds.Spec.Template.Spec.Containers[0].Image == image && s.ObservedGeneration == ds.Generation &&
			s.UpdatedNumberScheduled == nodes && s.NumberReady == nodes && s.NumberUnavailable == 0, err
	})
}

// poll asks the health-check port of every node ten times a second.
type poll struct {
	cancel   context.CancelFunc
	done     sync.WaitGroup
	mu       sync.Mutex
	answers  int
	failures []string
}

func startPoll(ctx context.Context, port int) *poll {
	ctx, cancel := context.WithCancel(ctx)
	p := &poll{cancel: cancel}
	client := &http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{DialContext: theStage.DialContext, DisableKeepAlives: true},
	}
	for _, n := range theStage.Nodes() {
		url := "http://" + net.JoinHostPort(n.IP(), strconv.Itoa(port)) + "/"
		p.done.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					p.note(ask(client, url))
				}
			}
		})
	}
	return p
}

func ask(client *http.Client, url string) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, response.Status, body)
	}
	return nil
}

func (p *poll) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers++
	if err != nil {
		p.failures = append(p.failures, time.Now().Format(time.TimeOnly)+" "+err.Error())
	}
}

func (p *poll) stop() (answers int, failures []string) {
	p.cancel()
	p.done.Wait()
	return p.answers, p.failures
}

func restarts(pod *corev1.Pod) (n int32) {
	for _, c := range pod.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}
