// Package targets tests how the controller keeps targets and detaches nodes, on a
// real API server with simulated nodes, against the server of test/aws. What the
// controller does is seen at that server and at the API server alone.
package targets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mumoshu/ingress-daemonset-controller/test/audit"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/access"
	awsapi "github.com/mumoshu/ingress-daemonset-controller/test/aws/api"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cli"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

const (
	namespace   = "ingress-daemonset-system"
	accountName = "ingress-daemonset-controller"
	account     = "system:serviceaccount:" + namespace + ":" + accountName
	region      = "eu-central-1"
	zone        = region + "a"
	farZone     = region + "b"
	patience    = 2 * time.Minute
	// settle is shorter than any load balancer's, since no traffic flows in most tests.
	settle = 3 * time.Second
	// unknown is the node whose machine the cloud does not know, far the one whose machine is
	// in another zone than all others.
	unknown = "simulated-9"
	far     = "simulated-10"
	// managed is the tag by whose value config/aws/policy-by-tag.json permits to move targets.
	managed = "ingressdaemonsets.mumoshu.github.io/managed"
)

var (
	theCluster *cluster.Cluster
	api        client.WithWatch
	theCloud   *aws.Server
	admin      *aws.Client
	// theMachines are those of both accounts.
	theMachines []cloud.Instance
	theAccounts *accounts
	// theController is killed and started anew by tests.
	theController *program
	theWebhook    *edge
)

func TestMain(m *testing.M) {
	// Under that name it is what a page's commands call.
	if filepath.Base(os.Args[0]) == cli.Name {
		if err := cli.Run(context.Background(), os.Args[1:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	log.SetLogger(logr.Discard())
	// The tests wait for most of their time.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(harness.OnAPIServer("targets", 16, func(ctx context.Context, c *cluster.Cluster) (int, error) {
		theCluster = c
		return run(ctx, c.Dir(), m)
	}))
}

// run runs the tests, and keeps files in a folder that goes with the cluster.
func run(ctx context.Context, dir string, m *testing.M) (code int, err error) {
	if err := install(ctx); err != nil {
		return 0, err
	}
	if err := startCloud(ctx); err != nil {
		return 0, err
	}
	defer theCloud.Stop()
	if theAccounts, err = startAccounts(ctx, dir, theMachines); err != nil {
		return 0, err
	}
	defer theAccounts.stop()
	if theWebhook, err = newEdge(dir); err != nil {
		return 0, err
	}
	defer theWebhook.server.Close()
	if theController, err = build(ctx, dir); err != nil {
		return 0, err
	}
	if err := theController.start(); err != nil {
		return 0, err
	}
	defer theController.kill()
	code = m.Run()
	if code == 0 {
		err = checkPermissions(ctx)
	}
	if code != 0 || err != nil {
		err = errors.Join(err, harness.KeepLog("targets-controller.log", theController.log.Bytes()))
	}
	return code, err
}

func install(ctx context.Context) (err error) {
	if api, err = harness.Admin(theCluster); err != nil {
		return err
	}
	if err := api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	for _, part := range []string{"crd", "rbac", "loadbalancers"} {
		if out, err := theCluster.Kubectl(ctx, "apply", "--server-side", "-k", "../../config/"+part).CombinedOutput(); err != nil {
			return fmt.Errorf("installing config/%s: %w: %s", part, err, out)
		}
	}
	for _, crd := range []string{"ingressdaemonsets", "targetgroupattachments", "attachments"} {
		out, err := theCluster.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd/"+crd+".ingressdaemonsets.mumoshu.github.io").CombinedOutput()
		if err != nil {
			return fmt.Errorf("waiting for %s: %w: %s", crd, err, out)
		}
	}
	return nil
}

// instance is the machine of a simulated node.
func instance(node string) string { return "i-" + node }

// addressOf is the address of that machine.
func addressOf(node string) string {
	number, err := strconv.Atoi(strings.TrimPrefix(node, "simulated-"))
	if err != nil {
		panic(err)
	}
	return local(1, number)
}

// local is an address on loopback: of a machine with 1 and the number of its node, of a
// load balancer with 9. Runs beside each other on one computer have different ones.
func local(kind, number int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 1+pid%250, 10*(pid/250%25)+kind, number)
}

// startCloud starts the server with a machine for each simulated node but one, in two zones.
func startCloud(ctx context.Context) error {
	policy, err := os.ReadFile("../../config/aws/policy.json")
	if err != nil {
		return err
	}
	byTag, err := os.ReadFile("../../config/aws/policy-by-tag.json")
	if err != nil {
		return err
	}
	config := aws.Config{
		Spec: cloud.Spec{
			Seed: 1, Scale: 10, Region: region,
			VPC: cloud.VPC{Subnets: []cloud.Subnet{
				{ID: "subnet-a", CIDR: netip.MustParsePrefix("10.0.0.0/8"), Zone: zone}, {ID: "subnet-b", CIDR: netip.MustParsePrefix("192.168.0.0/16"), Zone: farZone},
			}},
		},
		Access: access.Config{Users: []access.User{
			{Name: "controller", AccessKeyID: "AKIACONTROLLER", SecretKey: "controller-secret", Policy: policy},
			{Name: "second", AccessKeyID: "AKIASECOND", SecretKey: "second-secret", Policy: policy},
			{Name: "bytag", AccessKeyID: "AKIABYTAG", SecretKey: "bytag-secret", Policy: byTag},
			{Name: "terraform", AccessKeyID: "AKIATERRAFORM", SecretKey: "terraform-secret", Policy: json.RawMessage(`{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}`)},
		}},
		// The tests look far more often than the controller does.
		Limits: awsapi.Limits{"v2 Describe": {Capacity: -1}},
	}
	var nodes corev1.NodeList
	if err := api.List(ctx, &nodes); err != nil {
		return err
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		id := instance(n.Name)
		machine := cloud.Instance{ID: id, Address: netip.MustParseAddr(addressOf(n.Name)), Zone: zone}
		if n.Name == far {
			machine.Zone = farZone
		}
		if n.Name != unknown {
			theMachines = append(theMachines, machine)
		}
		patch := client.MergeFrom(n.DeepCopy())
		n.Spec.ProviderID = "aws:///" + zone + "/" + id
		if err := api.Patch(ctx, n, patch); err != nil {
			return err
		}
	}
	config.Instances = theMachines
	if theCloud, err = aws.Start(ctx, config); err != nil {
		return err
	}
	admin = aws.NewClient(theCloud.Admin)
	return nil
}

// program is the controller as users run it.
type program struct {
	path, kubeconfig string
	cmd              *exec.Cmd
	log              bytes.Buffer
	// memory is read-locked by tests of what one process remembers, and locked by those
	// that kill it while others run.
	memory sync.RWMutex
}

func build(ctx context.Context, dir string) (*program, error) {
	p := &program{path: filepath.Join(dir, "controller"), kubeconfig: filepath.Join(dir, "controller.kubeconfig")}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", p.path, "../../cmd/controller")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the controller: %w: %s", err, out)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: accountName, Namespace: namespace}}
	token := &authenticationv1.TokenRequest{}
	if err := api.SubResource("token").Create(ctx, account, token); err != nil {
		return nil, err
	}
	config, err := clientcmd.LoadFromFile(theCluster.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{accountName: {Token: token.Status.Token}}
	config.Contexts[config.CurrentContext].AuthInfo = accountName
	return p, clientcmd.WriteToFile(*config, p.kubeconfig)
}

func (p *program) start() error { return p.startAs("controller") }

// startAs starts it as a user of the cloud, with more flags.
func (p *program) startAs(user string, flags ...string) error {
	own := []string{"--kubeconfig=" + p.kubeconfig, "--healthchecker-image=none", "--metrics-bind-address=0", "--health-probe-bind-address=0",
		"--cloud=aws", "--aws-region=" + region, "--aws-endpoint=" + theAccounts.server.URL, "--assume-roles-file=" + theAccounts.rolesFile, "--network-floor=" + settle.String(), "--other-floor=" + settle.String(),
		"--groups-every=2s", "--cloud-rate=20", "--cloud-background-rate=50", "--detach", "--detach-webhook=edge=" + theWebhook.server.URL, "--detach-webhook-secret-file=" + theWebhook.secretFile, "-v=1"}
	p.cmd = exec.Command(p.path, append(own, flags...)...)
	p.cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=AKIA"+strings.ToUpper(user), "AWS_SECRET_ACCESS_KEY="+user+"-secret")
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return p.cmd.Start()
}

// kill ends it at once, as a node that fails does.
func (p *program) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// checkPermissions compares what config/loadbalancers and config/aws grant with what
// was done in all tests: nothing is missing, and nothing of the first is too much.
func checkPermissions(ctx context.Context) error {
	events, err := audit.Read(theCluster.AuditLog(), audit.Account(account))
	if err != nil {
		return err
	}
	calls, err := admin.Calls(ctx, 0)
	if err != nil {
		return err
	}
	for _, c := range calls {
		if c.Outcome == "AccessDenied" {
			return fmt.Errorf("the controller may not: %+v", c)
		}
	}
	return audit.Check("the controller", events, flag.Lookup("test.run").Value.String() == "", func() ([]rbacv1.PolicyRule, error) {
		role := &rbacv1.ClusterRole{}
		err := api.Get(ctx, client.ObjectKey{Name: accountName + "-loadbalancers"}, role)
		return role.Rules, err
	})
}
