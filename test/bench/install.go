package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

// controllerName is the name of the controller's service account, its program's
// is "controller".
const controllerName = "ingress-daemonset-controller"

// install makes the API known and gives the controller its permissions.
func (b *bench) install(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: harness.Namespace}}
	if err := b.client.Create(ctx, ns); err != nil {
		return err
	}
	for _, part := range []string{"crd", "policy", "rbac", "loadbalancers"} {
		out, err := b.Kubectl(ctx, "apply", "--server-side", "-k", filepath.Join(b.root, "config", part)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("installing config/%s: %w: %s", part, err, out)
		}
	}
	out, err := b.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all").CombinedOutput()
	if err != nil {
		return fmt.Errorf("waiting for the API: %w: %s", err, out)
	}
	return nil
}

// start builds the controller and the health checkers and starts them as
// processes of their own, the controller under its own service account.
func (b *bench) start(ctx context.Context) error {
	if err := b.observeIdle(ctx); err != nil {
		return fmt.Errorf("measuring idleness: %w", err)
	}
	var err error
	if b.asController, err = b.kubeconfig(ctx, b.Server()); err != nil {
		return fmt.Errorf("making the controller's kubeconfig: %w", err)
	}
	if _, err := b.run(ctx, "./test/bench/checkers", "--kubeconfig="+filepath.Join(b.Dir(), "pki", "kwok.kubeconfig"),
		"--namespace="+namespace, "--name="+idsName, fmt.Sprintf("--port=%d", healthCheckPort)); err != nil {
		return err
	}
	return b.control(ctx)
}

// control starts the controller, with more in its environment.
func (b *bench) control(ctx context.Context, env ...string) error {
	program, err := b.build(ctx, b.controllerPackage)
	if err != nil {
		return err
	}
	cmd := b.Command(ctx, program, "--kubeconfig="+b.asController, "--healthchecker-image=healthchecker",
		"--metrics-bind-address=0", "--health-probe-bind-address=0")
	cmd.Env = append(cmd.Environ(), env...)
	b.controller, err = b.launch(ctx, cmd, filepath.Base(b.controllerPackage))
	return err
}

// kubeconfig is the file with which the controller reaches the API server at a URL.
func (b *bench) kubeconfig(ctx context.Context, server string) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: controllerName, Namespace: harness.Namespace}}
	day := int64(24 * 60 * 60)
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}
	if err := b.client.SubResource("token").Create(ctx, account, token); err != nil {
		return "", err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["cluster"] = &clientcmdapi.Cluster{Server: server, CertificateAuthority: filepath.Join(b.Dir(), "pki", "ca.crt")}
	config.AuthInfos["controller"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["controller"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "controller"}
	config.CurrentContext = "controller"
	path := filepath.Join(b.Dir(), "controller.kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// run builds a program of the project and starts it in the cluster's network. It
// ends with the cluster.
func (b *bench) run(ctx context.Context, pkg string, args ...string) (*os.Process, error) {
	program, err := b.build(ctx, pkg)
	if err != nil {
		return nil, err
	}
	return b.launch(ctx, b.Command(ctx, program, args...), filepath.Base(pkg))
}

// build builds a program of the project.
func (b *bench) build(ctx context.Context, pkg string) (program string, err error) {
	return buildProgram(ctx, b.root, filepath.Join(b.Dir(), "bench"), pkg)
}

// projectRoot is the folder of the project.
func projectRoot(ctx context.Context) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/mumoshu/ingress-daemonset-controller").Output()
	if err != nil {
		return "", fmt.Errorf("finding the project's folder: %w", err)
	}
	return strings.TrimSpace(string(root)), nil
}

// buildProgram builds a program of the project into a folder.
func buildProgram(ctx context.Context, root, dir, pkg string) (program string, err error) {
	program = filepath.Join(dir, filepath.Base(pkg))
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, pkg)
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w: %s", pkg, err, out)
	}
	return program, nil
}

// launch starts a command. What it says goes to a file beside the cluster's logs.
func (b *bench) launch(ctx context.Context, cmd *exec.Cmd, name string) (*os.Process, error) {
	log, err := os.Create(filepath.Join(b.Dir(), "logs", name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		if err := cmd.Wait(); err != nil && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "%s ended: %v\n", strings.Join(cmd.Args, " "), err)
		}
	}()
	return cmd.Process, nil
}

func (b *bench) get(ctx context.Context, obj client.Object) error {
	return b.client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
}
