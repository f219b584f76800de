//go:build linux

package images

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"golang.org/x/sys/unix"
)

func post(t *testing.T, address string) *http.Response {
	t.Helper()
	conn := dial(t, address)
	defer conn.Close()
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
	return answer(t, conn)
}

// startRequest sends the first half of a request, finishRequest the second. It returns
// the pod that answered.
func startRequest(t *testing.T, address string) net.Conn {
	t.Helper()
	conn := dial(t, address)
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\n")
	return conn
}

func finishRequest(t *testing.T, conn net.Conn) string {
	t.Helper()
	defer conn.Close()
	io.WriteString(conn, "Content-Length: 5\r\n\r\nhello")
	return answer(t, conn).Header.Get("X-Pod")
}

// answer reads an answer that must be 200 and "ok\n".
func answer(t *testing.T, conn io.Reader) *http.Response {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != 200 || string(body) != "ok\n" {
		t.Errorf("%v, status %d, body %q", err, response.StatusCode, body)
	}
	return response
}

// awaitHealth waits for 200 of the health endpoint.
func awaitHealth(t *testing.T) {
	t.Helper()
	conn := dial(t, "127.0.0.1:10254")
	defer conn.Close()
	io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("%v, health %+v", err, response)
	}
}

// podsThatAnswer counts the answers to new connections by pod.
func podsThatAnswer(t *testing.T, address string) map[string]int {
	t.Helper()
	pods := map[string]int{}
	for range 50 {
		header := post(t, address).Header
		if header.Get("X-Node") != "node-1" || header.Get("X-Version") != "2" {
			t.Errorf("header %v", header)
		}
		pods[header.Get("X-Pod")]++
	}
	return pods
}

func awaitBothAnswer(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); len(podsThatAnswer(t, address)) < 2; {
		if time.Now().After(deadline) {
			t.Fatal("only one of two pods that share a port answers")
		}
	}
}

func environment(pod string) []string {
	return []string{"POD_NAME=" + pod, "NODE_NAME=node-1", "VERSION=2"}
}

// Two pods share the node's port, and one that is told to stop finishes its request first.
func TestProxiesShareAPortAndStopGracefully(t *testing.T) {
	for proxy, signal := range map[string]syscall.Signal{
		"nginx": syscall.SIGQUIT, "haproxy": syscall.SIGUSR1, "caddy": syscall.SIGTERM,
	} {
		t.Run(proxy, func(t *testing.T) {
			ownNetwork(t)
			image := unpack(t, archiveOf(t, proxy))
			if image.config.StopSignal != unix.SignalName(signal) {
				t.Errorf("stop signal %s", image.config.StopSignal)
			}
			mount(t, image, proxy, HostNetwork)
			const address = "127.0.0.1:80"

			one := image.run(t, 0, environment("one"))
			slow := startRequest(t, address)
			awaitHealth(t)

			image.run(t, 0, environment("two"))
			awaitBothAnswer(t, address)

			one.Process.Signal(signal)
			time.Sleep(time.Second)
			if pods := podsThatAnswer(t, address); pods["one"] > 0 {
				t.Errorf("the pod that stops takes connections: %v", pods)
			}
			if !one.running() {
				t.Fatal("the proxy did not wait for its last request")
			}
			if pod := finishRequest(t, slow); pod != "one" {
				t.Errorf("pod %s answers", pod)
			}
			one.awaitExit(t)
		})
	}
}

// mount puts the ready configuration where a ConfigMap would be mounted.
func mount(t *testing.T, image unpacked, proxy string, network Network) {
	t.Helper()
	config, err := Config(proxy, network)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(image.root, config.Path), []byte(config.Content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestProxiesOnThePodNetworkNeedNoRoot(t *testing.T) {
	for proxy := range proxies {
		t.Run(proxy, func(t *testing.T) {
			ownNetwork(t)
			image := unpack(t, archiveOf(t, proxy))
			mount(t, image, proxy, PodNetwork)
			image.run(t, 65532, environment("one"))
			awaitHealth(t)
			if pods := podsThatAnswer(t, "127.0.0.1:8080"); pods["one"] != 50 {
				t.Errorf("answers %v", pods)
			}
		})
	}
}

var exampleArgs = []string{
	"/nginx-ingress-controller",
	"--default-backend-service=ingress/default-http-backend",
	"--configmap=ingress/nginx-configuration",
	"--tcp-services-configmap=ingress/tcp-services",
	"--udp-services-configmap=ingress/udp-services",
	"--publish-service=ingress/ingress-nginx",
	"--annotations-prefix=nginx.ingress.kubernetes.io",
}

// The example's container: www-data, on ports 80 and 443, and stopped by its preStop hook.
func TestExampleIngressController(t *testing.T) {
	ownNetwork(t)
	image := unpack(t, archiveOf(t, "nginx"))
	one := image.run(t, 33, environment("one"), exampleArgs...)
	slow := startRequest(t, "127.0.0.1:80")
	awaitHealth(t)
	image.run(t, 33, environment("two"), exampleArgs...)
	awaitBothAnswer(t, "127.0.0.1:80")
	awaitBothAnswer(t, "127.0.0.1:443")

	hook := exec.Command("nsenter", fmt.Sprintf("--target=%d", one.Process.Pid), "--pid", "--root", "--setuid=33", "--setgid=33", "/wait-shutdown")
	if err := hook.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	if !one.running() || hook.Process.Signal(syscall.Signal(0)) != nil {
		t.Fatal("nginx or its preStop hook did not wait for the last request")
	}
	if pod := finishRequest(t, slow); pod != "one" {
		t.Errorf("pod %s answers", pod)
	}
	one.awaitExit(t)
	hook.Wait() // killed with the first process of its namespace, as in a cluster
	if pods := podsThatAnswer(t, "127.0.0.1:80"); pods["two"] != 50 {
		t.Errorf("answers %v", pods)
	}
}

// Without the capability in its bounding set the program still starts.
func TestIngressControllerWithoutCapabilities(t *testing.T) {
	ownNetwork(t)
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0o644); err != nil {
		t.Skip(err)
	}
	image := unpack(t, archiveOf(t, "nginx"))
	if err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_NET_BIND_SERVICE, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	image.run(t, 33, environment("one"), exampleArgs...)
	awaitHealth(t)
	post(t, "127.0.0.1:80")
}

func TestCommandsImage(t *testing.T) {
	binaries := t.TempDir()
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(binaries, "wait-shutdown"), "./waitshutdown")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	image, err := Commands(binaries, runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := Write(archive, "example/commands:test", image); err != nil {
		t.Fatal(err)
	}
	t.Run("is an OCI image layout", func(t *testing.T) {
		folder := t.TempDir()
		if out, err := exec.Command("tar", "-xf", archive, "-C", folder).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		index, err := layout.ImageIndexFromPath(folder)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := index.IndexManifest()
		if err != nil || len(manifest.Manifests) != 1 {
			t.Fatalf("%v, %+v", err, manifest)
		}
		if name := manifest.Manifests[0].Annotations["io.containerd.image.name"]; name != "docker.io/example/commands:test" {
			t.Errorf("name %s", name)
		}
		if _, err := index.Image(manifest.Manifests[0].Digest); err != nil {
			t.Error(err)
		}
	})
	t.Run("runs a command as nonroot", func(t *testing.T) {
		ownNetwork(t)
		u := unpack(t, archive)
		if u.config.User != "65532:65532" || len(u.config.Entrypoint) != 0 {
			t.Errorf("config %+v", u.config)
		}
		c := u.run(t, 65532, nil, "/wait-shutdown")
		<-c.exited
		if !strings.Contains(c.output.String(), "no such file") {
			t.Errorf("output %q", c.output.String())
		}
	})
}

func TestBadInputIsNamed(t *testing.T) {
	_, unknownProxy := Proxy(t.Context(), "apache")
	_, noPrograms := Commands(t.TempDir(), runtime.GOARCH)
	_, noConfig := Config("apache", HostNetwork)
	for want, err := range map[string]error{
		"must be one of caddy, haproxy, nginx": unknownProxy,
		"no programs in":                       noPrograms,
		`no configuration for proxy "apache"`:  noConfig,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("expected an error with %q, got %v", want, err)
		}
	}
}
