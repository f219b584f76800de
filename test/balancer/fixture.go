package balancer

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
)

//go:embed *.yaml
var manifests embed.FS

const (
	// nodes of which two are updated at a time.
	nodes = 4

	serviceAccount = "ingress-daemonset-controller"
	deployment     = "ingress-daemonset-controller"
	// networkSettleTime is the controller's default.
	networkSettleTime = 5 * time.Minute
	groupsEvery       = time.Minute

	// rate is more than the least, so that a machine that stalls for a moment sends
	// enough all the same.
	rate, leastRate = 2300, 2000
	// keptFor is how long a client keeps a connection: shorter than the grace after a
	// detachment, since a network load balancer moves no connection.
	keptFor = 3 * time.Second
	// minutesStream are the requests that take flowOfMinutes.
	minutesStream = "minutes"
	// slowBody takes nginx, which is told to send 200 bytes a second, 5 s with its header.
	slowBody = 900
	// headerSize is about what nginx sends before a body.
	headerSize = 250
	// flowOfMinutes is how long a connection lasts in the case of that name, AWS's time.
	flowOfMinutes = 5 * time.Minute
	// minutesShare, of 100, are the requests on such connections.
	minutesShare = 0.25
)

// Fixture is a cluster behind the load balancer, with two fleets of proxies: nodes, of
// which the nodes are targets, and pods, of which the pods are.
type Fixture struct {
	*harness.Harness
	Options
	account *account
	fleets  map[string]*harness.Fleet // by target group
}

// SetUp starts all of it, and returns when every target is healthy.
func SetUp(ctx context.Context, o Options) (_ *Fixture, err error) {
	on, err := harness.SetUp(ctx, cluster.Options{Nodes: nodes, Dir: o.Dir, Log: o.Log})
	if err != nil {
		return nil, err
	}
	s := &Fixture{Harness: on, Options: o, fleets: map[string]*harness.Fleet{}}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if _, err := s.Lab(ctx, "traffic"); err != nil {
		return nil, err
	}
	if err := s.identifyNodes(ctx); err != nil {
		return nil, err
	}
	policy, err := os.ReadFile(filepath.Join(s.Root(), "config", "aws", "policy.json"))
	if err != nil {
		return nil, err
	}
	if s.account, err = openAccount(ctx, s.Harness, o, policy); err != nil {
		return nil, err
	}
	fmt.Fprintf(o.Log, "a network load balancer is at %s, with times divided by %g and the seed %d\n", s.HostIP(), o.Scale, o.Seed)
	if err := s.installDetaching(ctx); err != nil {
		return nil, err
	}
	return s, s.enter(ctx)
}

// Close ends the load balancer. The cluster stays.
func (s *Fixture) Close() {
	if s.account != nil {
		s.account.close()
	}
}

// identifyNodes tells of each node which instance it is, as a cloud's controller does.
func (s *Fixture) identifyNodes(ctx context.Context) error {
	for _, n := range s.Nodes() {
		patch := fmt.Sprintf(`{"spec":{"providerID":"aws:///%s/%s"}}`, n.Zone(), instanceOf(n))
		node := &corev1.Node{}
		node.Name = n.Name()
		if err := s.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			return fmt.Errorf("identifying %s: %w", n.Name(), err)
		}
	}
	return nil
}

// installDetaching has the controller, installed already, keep targets and detach nodes,
// with credentials as IRSA gives them.
func (s *Fixture) installDetaching(ctx context.Context) error {
	args := []string{
		"--leader-elect", "--cloud=aws", "--aws-region=" + region,
		"--aws-endpoint=http://" + net.JoinHostPort(s.HostIP(), strconv.Itoa(apiPort)),
		"--network-floor=" + s.scaled(networkSettleTime).String(), "--groups-every=" + s.scaled(groupsEvery).String(), "--detach", "-v=1",
	}
	const tokens = "/var/run/secrets/eks.amazonaws.com/serviceaccount"
	type object = map[string]any
	patch, err := json.Marshal(object{"spec": object{"template": object{"spec": object{
		"volumes": []object{{"name": "aws-token", "projected": object{"sources": []object{
			{"serviceAccountToken": object{"audience": audience, "path": "token"}},
		}}}},
		"containers": []object{{
			"name": "controller", "args": args,
			"volumeMounts": []object{{"name": "aws-token", "mountPath": tokens, "readOnly": true}},
			"env": []object{
				{"name": "AWS_ROLE_ARN", "value": roleARN},
				{"name": "AWS_WEB_IDENTITY_TOKEN_FILE", "value": tokens + "/token"},
			},
		}},
	}}}})
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "--server-side", "-k", filepath.Join(s.Root(), "config", "loadbalancers")},
		{"-n", harness.Namespace, "patch", "deployment", deployment, "-p", string(patch)},
		{"-n", harness.Namespace, "rollout", "status", "deployment", deployment, "--timeout=180s"},
	} {
		if out, err := s.Kubectl(ctx, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("installing the detaching of nodes: %w: %s", err, out)
		}
	}
	return nil
}

// enter starts both fleets and returns when all targets are healthy.
func (s *Fixture) enter(ctx context.Context) error {
	fmt.Fprintln(s.Log, "starting nginx on the host network, and on the pod network; its targets are registered")
	for _, name := range []string{"nodes", "pods"} {
		if err := s.apply(ctx, name); err != nil {
			return err
		}
	}
	if err := s.account.registerNodes(ctx, s.Nodes()); err != nil {
		return err
	}
	for _, fleet := range s.fleets {
		if err := fleet.WaitServing(ctx); err != nil {
			return err
		}
	}
	return errors.Join(s.account.waitHealthy(ctx, "nodes", nodes), s.account.waitHealthy(ctx, "pods", 2*nodes))
}

func (s *Fixture) apply(ctx context.Context, name string) error {
	text, err := manifests.ReadFile(name + ".yaml")
	if err != nil {
		return err
	}
	manifest, err := harness.ParseManifest(text)
	if err != nil {
		return err
	}
	if err := manifest.AdjustSet(s.adjust); err != nil {
		return err
	}
	if err := s.MakeNamespace(ctx, name); err != nil {
		return err
	}
	s.fleets[name] = &harness.Fleet{Harness: s.Harness, Key: types.NamespacedName{Namespace: name, Name: "nginx"}}
	return s.Apply(ctx, name, manifest)
}

// adjust divides the times that answer to AWS's.
func (s *Fixture) adjust(set *v1alpha1.IngressDaemonSet) {
	u := set.Spec.UpdateStrategy.RollingUpdate
	for _, grace := range []*int32{u.WaitForDetachmentByAnnotatedTimestamp.GracePeriodSeconds, u.AttachGracePeriodSeconds} {
		*grace = int32(s.scaled(time.Duration(*grace)*time.Second) / time.Second)
	}
	env := set.Spec.Template.Spec.Containers[0].Env
	for i := range env {
		switch env[i].Name {
		case "SLOW":
			env[i].Value = "ok" + strings.Repeat(".", slowBody)
		case "MINUTES_RATE":
			env[i].Value = strconv.Itoa(int(math.Ceil((slowBody + headerSize) / s.scaled(flowOfMinutes).Seconds())))
		}
	}
}

// send sends requests to a group's listener: half on kept connections, half on new ones,
// and one in a hundred that takes 5 s; with minutes a few more that take flowOfMinutes.
func (s *Fixture) send(ctx context.Context, group string, minutes bool) (*traffic.Process, error) {
	client, err := s.Lab(ctx, "traffic")
	if err != nil {
		return nil, err
	}
	port := map[string]int{"nodes": nodesPort, "pods": podsPort}[group]
	to := net.JoinHostPort(s.HostIP(), strconv.Itoa(port))
	o := traffic.Options{
		Rate: rate, Timeout: 15 * time.Second, Duration: time.Hour,
		Streams: []traffic.Stream{
			{Name: "kept", Address: to, Share: 50, KeepAlive: true, Lifetime: keptFor},
			{Name: "new", Address: to, Share: 49},
			{Name: "slow", Address: to, Share: 1, Path: "/slow", Body: "ok", Prefix: true, Workers: rate / 100 * 8},
		},
	}
	if minutes {
		lasts := s.scaled(flowOfMinutes)
		o.Timeout = 2 * lasts
		o.Streams = append(o.Streams, traffic.Stream{
			Name: minutesStream, Address: to, Share: minutesShare, Path: "/minutes", Body: "ok", Prefix: true,
			Workers: int(rate * minutesShare / 100 * lasts.Seconds() * 1.5),
		})
	}
	return traffic.StartProcess(client, o)
}
