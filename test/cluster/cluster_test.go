package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
)

// TestCluster walks through the life of a cluster with two nodes.
func TestCluster(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("nodes need root")
	}
	dir := filepath.Join(t.TempDir(), "cluster")
	before := traces(t, dir)
	s := startScenario(t, dir)
	during := traces(t, dir)
	if len(during.processes) == 0 || len(during.controlGroups) == 0 || len(during.namespaces) < 3 {
		t.Errorf("the traces of a running cluster are not found: %+v", during)
	}
	if !slices.Equal(during.interfaces, before.interfaces) || !slices.Equal(during.mounts, before.mounts) {
		t.Errorf("the cluster shows outside: before %+v, during %+v", before, during)
	}

	t.Log("pods on the host network and of their own answer, from everywhere")
	s.createPods()
	for _, node := range s.Nodes() {
		s.eventually(s.fromHost(node.IP()+":8000"), node.Name())
		s.eventually(s.fromHost(s.podIP("pod-"+node.Name())+":8000"), "pod-"+node.Name())
	}
	one, two := s.Nodes()[0], s.Nodes()[1]
	s.eventually(s.from(one, "http://"+s.podIP("pod-node-2")+":8000"), "pod-node-2")
	s.eventually(s.from(one, "http://"+two.IP()+":8000"), "node-2")

	t.Log("kube-proxy makes the API server's address work on nodes")
	s.eventually(s.from(two, "https://"+serviceAddress+"/healthz"), "ok")

	t.Log("a node without its cable does not answer, and does when it has it again")
	s.must(two.Disconnect(s.ctx))
	s.never(s.fromHost(two.IP() + ":8000"))
	s.eventually(s.fromHost(one.IP()+":8000"), "node-1")
	s.must(two.Reconnect(s.ctx))
	s.eventually(s.fromHost(two.IP()+":8000"), "node-2")

	t.Log("a node that is powered off is gone with its pods, and they come back with it")
	s.must(two.Stop(s.ctx))
	s.never(s.fromHost(two.IP() + ":8000"))
	s.must(two.Start(s.ctx))
	s.eventually(s.fromHost(two.IP()+":8000"), "node-2")
	s.eventually(s.fromHost(s.podIP("pod-node-2")+":8000"), "pod-node-2")

	t.Log("pods outlive the API server")
	s.must(s.StopAPIServer(s.ctx))
	if _, err := s.ready("pod-node-1"); err == nil {
		t.Error("the API server still answers")
	}
	s.eventually(s.fromHost(one.IP()+":8000"), "node-1")
	s.must(s.StartAPIServer(s.ctx))
	if _, err := s.ready("pod-node-1"); err != nil {
		t.Errorf("the API server does not answer: %v", err)
	}

	t.Log("who did what is in the audit log")
	s.checkAuditLog()

	t.Log("another process can attach, and take down what others have started")
	attached, err := Attach(dir)
	s.must(err)
	s.must(attached.Command(context.Background(), s.hello, ":8001").Start())
	s.eventually(s.from(one, "http://"+attached.HostIP()+":8001"), hostname(t))
	s.must(attached.Down(s.ctx))
	after := traces(t, dir)
	if !reflect.DeepEqual(after, before) {
		t.Errorf("left when the cluster was taken down: before %+v, after %+v", before, after)
	}
	if used := namespacesOf(t, allProcesses(t)); slices.ContainsFunc(used, func(ns string) bool { return slices.Contains(during.namespaces, ns) }) {
		t.Errorf("network namespaces are left: had %v, in use are %v", during.namespaces, used)
	}
	s.must(Down(s.ctx, dir))
}

// TestSimulatedNodes is all that works without root and namespaces.
func TestSimulatedNodes(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "cluster")
	c, err := Start(ctx, Options{SimulatedNodes: 3, Dir: dir, Log: logTo{t}, withoutNamespaces: true})
	if err != nil {
		t.Fatal(err)
	}
	client, err := c.client()
	if err != nil {
		t.Fatal(err)
	}
	node, err := client.CoreV1().Nodes().Get(ctx, "simulated-2", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !readySince(node, time.Time{}) || node.Status.Addresses[0].Address != "127.1.0.2" {
		t.Errorf("simulated-2 is not what it should be: %+v", node.Status)
	}
	if err := c.Down(ctx); err != nil {
		t.Fatal(err)
	}
	if left, err := machine.Processes(c.Dir()); err != nil || len(left) > 0 {
		t.Errorf("processes left: %v, %v", left, err)
	}
}

func hostname(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

type scenario struct {
	*testing.T
	*Cluster
	ctx   context.Context
	hello string
}

func startScenario(t *testing.T, dir string) *scenario {
	s := &scenario{T: t, ctx: t.Context()}
	s.hello = filepath.Join(t.TempDir(), "hello")
	_, err := output(s.ctx, "", "go", "build", "-o", s.hello, "./testdata/hello")
	s.must(err)
	t.Cleanup(func() { s.must(Down(context.Background(), dir)) })
	started := time.Now()
	s.Cluster, err = Start(s.ctx, Options{Nodes: 2, Dir: dir, Log: logTo{t}})
	s.must(err)
	t.Logf("started in %s", time.Since(started))
	return s
}

func (s *scenario) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// createPods creates on every node a pod in its network and a pod with a
// network of its own, from an image that is pulled each time.
func (s *scenario) createPods() {
	s.Helper()
	const ref = "docker.io/example/hello:1"
	image, err := imageOf(s.hello)
	s.must(err)
	tag, err := name.NewTag(ref)
	s.must(err)
	archive := s.hello + ".tar"
	s.must(tarball.WriteToFile(archive, tag, image))
	s.must(s.PushImage(s.ctx, ref, archive))

	client, err := s.client()
	s.must(err)
	for _, node := range s.Nodes() {
		for podName, hostNetwork := range map[string]bool{"host-" + node.Name(): true, "pod-" + node.Name(): false} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: podName}, Spec: corev1.PodSpec{
				NodeName: node.Name(), HostNetwork: hostNetwork,
				Containers: []corev1.Container{{
					Name: "hello", Image: ref, Args: []string{":8000"}, ImagePullPolicy: corev1.PullAlways,
				}},
			}}
			_, err := client.CoreV1().Pods("default").Create(s.ctx, pod, metav1.CreateOptions{})
			s.must(err)
		}
	}
	for _, node := range s.Nodes() {
		s.podIP("pod-" + node.Name())
	}
}

func (s *scenario) ready(podName string) (*corev1.Pod, error) {
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	pod, err := client.CoreV1().Pods("default").Get(s.ctx, podName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if len(pod.Status.ContainerStatuses) == 0 || !pod.Status.ContainerStatuses[0].Ready {
		return nil, fmt.Errorf("%s is not ready: %+v", podName, pod.Status)
	}
	return pod, nil
}

func (s *scenario) podIP(podName string) string {
	s.Helper()
	var ip string
	s.until(func() error {
		pod, err := s.ready(podName)
		if err == nil {
			ip = pod.Status.PodIP
		}
		return err
	})
	return ip
}

// fromHost sends a request from the host.
func (s *scenario) fromHost(address string) func() (string, error) {
	return run(func() *exec.Cmd { return s.Cluster.Command(s.ctx, s.hello, "get", "http://"+address) })
}

// from sends a request from a node.
func (s *scenario) from(node *Node, url string) func() (string, error) {
	return run(func() *exec.Cmd { return node.Command(s.ctx, s.hello, "get", url) })
}

func run(command func() *exec.Cmd) func() (string, error) {
	return func() (string, error) {
		stdout, err := command().Output()
		return string(stdout), err
	}
}

func (s *scenario) eventually(get func() (string, error), want string) {
	s.Helper()
	s.until(func() error {
		got, err := get()
		if err == nil && got != want {
			err = fmt.Errorf("got %q, want %q", got, want)
		}
		return err
	})
}

// never checks that there is no answer within the client's patience.
func (s *scenario) never(get func() (string, error)) {
	s.Helper()
	if got, err := get(); err == nil {
		s.Errorf("got an answer: %q", got)
	}
}

func (s *scenario) until(check func() error) {
	s.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (s *scenario) checkAuditLog() {
	s.Helper()
	log, err := os.ReadFile(s.AuditLog())
	s.must(err)
	for _, want := range []string{`"username":"admin"`, `"username":"system:node:node-1"`, `"verb":"create"`, `"responseStatus"`} {
		if !bytes.Contains(log, []byte(want)) {
			s.Errorf("%s is not in the audit log", want)
		}
	}
}

// namespacesOf names the network namespaces that processes are in.
func namespacesOf(t *testing.T, pids []int) (names []string) {
	t.Helper()
	for _, pid := range pids {
		name, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err == nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func allProcesses(t *testing.T) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// logTo writes progress to a test's log.
type logTo struct{ testing.TB }

func (l logTo) Write(line []byte) (int, error) {
	l.Log(strings.TrimSpace(string(line)))
	return len(line), nil
}
