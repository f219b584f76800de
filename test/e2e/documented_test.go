package e2e

import (
	"context"
	"testing"
	"time"
)

const root = "../.."

// step is a documented command line, as a user follows the pages. NAME and NODE
// stand for what they say.
type step struct {
	documented string
	// run is run instead, where the page names what is not there, such as a registry,
	// or what would take long.
	run string
	// says is what the output must hold.
	says string
	// local says whether it is about a local cluster of the reader's own.
	local bool
	// inNetwork says whether it runs beside the load balancer, where nodes have addresses.
	inNetwork bool
	// fails is why it is right that the command fails.
	fails string
	// until ends a command that would go on for ever.
	until time.Duration
	// before is done first, after last.
	before, after func(context.Context, *reader)
}

// documented are those of a cluster that the reader has, in an order in which each is possible.
var documented = []step{
	{documented: "make image", says: "dist/ingress-daemonset-controller.tar"},
	{
		documented: "make push IMAGE=registry.example.com/ingress-daemonset-controller:v1", says: "pushed ",
		run: "make push IMAGE=HOST:5000/registry.example.com/ingress-daemonset-controller:v1", inNetwork: true,
	},
	{
		documented: "make push CHART=oci://registry.example.com/charts", says: "Pushed: ",
		run: "make push CHART=oci://HOST:5000/registry.example.com/charts", inNetwork: true,
	},
	{documented: "kubectl delete ids,tga --all --all-namespaces"},
	{documented: "kubectl delete -k config/default", before: endController, says: "deleted"},
	{documented: "kubectl apply --server-side -k config/default", says: "serverside-applied"},
	{documented: "make deploy IMAGE=registry.example.com/ingress-daemonset-controller:v1", says: "successfully rolled out"},
	{documented: "make deploy IMAGE=…", run: "make deploy IMAGE=registry.example.com/ingress-daemonset-controller:v1"},
	{documented: "go build -o /usr/local/bin/kubectl-ids ./cmd/kubectl-ids", run: "go build -o $BIN/kubectl-ids ./cmd/kubectl-ids"},
	{documented: "ln -s kubectl-ids /usr/local/bin/kubectl_complete-ids", run: "ln -s kubectl-ids $BIN/kubectl_complete-ids", after: completes},

	{documented: "kubectl apply -f examples/nginx.yaml", says: "nginx created"},
	{documented: "kubectl get ids", before: waitServing, says: "nginx   3         3         3         0"},
	{documented: "kubectl get ids nginx -w", until: 3 * time.Second, says: "nginx   3 "},
	{documented: "kubectl ids status nginx", says: "3 desired, 3 serving"},
	{documented: "kubectl describe ids NAME", says: "Complete"},
	{documented: `kubectl get ids NAME -o jsonpath='{range .status.nodes[*]}{.name}{"\t"}{.state}{"\t"}{.reason}{"\n"}{end}'`},
	{documented: "curl -i http://NODE:10080/", inNetwork: true, says: "200 OK"},
	{documented: "curl 'http://NODE:10080/?connections'", inNetwork: true, says: `"connections":[{"port":80,"open":0,"quietSeconds":0}`},
	{documented: "kubectl -n ingress-daemonset-system logs -l app.kubernetes.io/name=ingress-daemonset-controller", says: "starting"},
	{documented: "kubectl get deploy -l ingress-daemon-for-node=NODE -o jsonpath='{.items[*].metadata.annotations}'", says: "/pods-per-node"},
	{documented: "kubectl-ids completion bash", says: "complete"},
	{documented: "kubectl ids version", says: "Controller:"},
	{documented: "kubectl ids list", says: "Complete"},
	{documented: "kubectl ids top", until: 3 * time.Second, says: "1 IngressDaemonSets: 1 Complete"},
	{documented: "kubectl ids routes"},
	{documented: "kubectl ids routes HOST PATH", run: "kubectl ids routes shop.example.com /", fails: "no rule serves it"},
	{documented: "kubectl ids from daemonset/NAME", run: "kubectl ids from daemonset/NAME-10080", fails: "is made by ingressdaemonset/nginx"},
	{
		documented: "kubectl ids from deployment/NAME", run: "kubectl ids from deployment/native", says: "kind: IngressDaemonSet",
		before: func(ctx context.Context, u *reader) {
			u.must(ctx, "kubectl create deployment native --image=nginx:1.22 --replicas=0")
		},
		after: func(ctx context.Context, u *reader) { u.must(ctx, "kubectl delete deployment native") },
	},
	{documented: "kubectl ids set image NAME CONTAINER=IMAGE", run: "kubectl ids set image NAME nginx=nginx:1.22", says: "has these images already"},
	{documented: "kubectl ids status NAME", says: "3 desired"},
	{documented: "kubectl ids plan NAME", says: "Nothing is to be done"},
	{documented: "kubectl ids explain NAME NODE", says: "It serves."},
	{documented: "kubectl ids detach NODE", says: "detached"},
	{documented: "kubectl ids attach NODE", says: "attached"},
	{documented: "kubectl ids port release NAME PORT", run: "kubectl ids port release NAME 10080", fails: "is in spec.healthCheckNodePorts"},
	{documented: "kubectl ids attach --all", says: "No node is out of its load balancers"},

	// The runbook, and a node that is out while no controller runs.
	{documented: "kubectl ids list -A", says: "Complete"},
	{documented: "kubectl get targetgroupattachments --all-namespaces", says: "No resources found"},
	{documented: "kubectl ids attach NODE --print-aws", fails: "has no Attachment"},
	{documented: "kubectl -n ingress-daemonset-system get pods -o wide", says: "Running"},
	{documented: "kubectl describe deployments,replicasets -n ingress-daemonset-system", says: "ingress-daemonset-controller"},
	{documented: `kubectl get targetgroupattachments --all-namespaces -o jsonpath='{range .items[*].status.groups[*]}{.id}{"\t"}{.targets}{"\n"}{end}'`},
	{documented: "kubectl get node NODE -o jsonpath='{.spec.providerID}'"},
	{documented: "kubectl -n ingress-daemonset-system rollout restart deployment ingress-daemonset-controller", says: "restarted", after: controllerRuns},
	{documented: `kubectl patch ids NAME --type=merge -p '{"spec":{"paused":true}}'`, before: takeOut, says: "patched"},
	{documented: "kubectl -n ingress-daemonset-system scale deployment ingress-daemonset-controller --replicas=0", says: "scaled", after: endController},
	{
		documented: `kubectl get deployments --all-namespaces -l ingress-daemon-for-node -o custom-columns='NODE:.metadata.annotations.ingressdaemonsets\.mumoshu\.github\.io/node,READY:.status.readyReplicas,MARK:.metadata.annotations.ingressdaemonsets\.mumoshu\.github\.com/to-be-updated,MARK-KEY:.metadata.annotations.ingressdaemonsets\.mumoshu\.github\.io/mark-key,WANTED-OUT:.metadata.annotations.ingressdaemonsets\.mumoshu\.github\.io/detached,DRAINED:.metadata.annotations.ingressdaemonsets\.mumoshu\.github\.io/drained-at'`,
		says:       "kubectl-ids",
	},
	{documented: "kubectl get pods --all-namespaces -l ingress-daemon-for-node=NODE", says: "Running"},
	{
		documented: "kubectl annotate deployments --all-namespaces -l ingress-daemon-for-node=NODE ingressdaemonsets.mumoshu.github.com/to-be-updated- ingressdaemonsets.mumoshu.github.io/detached- ingressdaemonsets.mumoshu.github.io/drained-at-",
		before:     answers("503"), says: "annotated", after: answers("200"),
	},
	{documented: "kubectl scale deployment NAME-NODE --replicas=2", says: "scaled"},
	{documented: "kubectl annotate node NODE node-detacher.variant.run/detached-", says: "node/"},
	{documented: "kubectl -n ingress-daemonset-system scale deployment ingress-daemonset-controller --replicas=2", says: "scaled", after: putBack},

	// The recorded session, in which the template changes.
	{documented: "kubectl get ids nginx", before: waitServing, says: "nginx   3 "},
	{documented: `sed 's/value: "1"/value: "2"/' nginx.yaml > new.yaml`},
	{documented: "kubectl ids plan nginx -f new.yaml", says: "node-3"},
	{documented: "kubectl apply -f new.yaml", says: "nginx configured"},
	{documented: "kubectl ids status nginx --watch", until: 10 * time.Second, says: "Detaching"},
	{documented: "kubectl ids rollout pause NAME", says: "paused"},
	{documented: "kubectl ids rollout resume NAME", says: "resumed"},
	{documented: "kubectl ids rollout status NAME", says: "successfully rolled out"},
	{documented: "kubectl wait ids/NAME --for=condition=Ready --timeout=10m", says: "condition met"},
	{documented: "kubectl ids rollout undo nginx", says: "rolled back to revision 1"},
	{documented: "kubectl ids rollout status nginx", says: "successfully rolled out"},
	{documented: "kubectl ids rollout history nginx", says: "the present template"},

	{documented: "kubectl ids rollout history NAME", says: "the present template"},
	{documented: "kubectl ids rollout abort NAME", fails: "there is nothing to abort"},
	{documented: "kubectl ids rollout retry NAME", fails: "there is nothing to try again"},
	{documented: "kubectl ids rollout promote NAME", fails: "nothing to promote"},
	{documented: "kubectl ids rollout undo NAME", says: "rolled back to revision 2"},
	{documented: "kubectl ids rollout restart NAME", says: "restarted"},

	{documented: "kubectl annotate ids NAME ingressdaemonsets.mumoshu.github.io/allow-foreground-deletion=", says: "annotated"},
	{documented: "kubectl delete ids NAME --cascade=orphan", says: "deleted"},
	{documented: `kubectl patch ids NAME --type=merge -p '{"metadata":{"finalizers":null}}'`, before: stuckInDeletion, says: "patched"},
	{documented: `kubectl patch tga NAME --type=merge -p '{"metadata":{"finalizers":null}}'`, before: targetsStuckInDeletion, says: "patched"},
	{documented: "kubectl apply --server-side -k .", before: kustomize, run: "kubectl apply --server-side --force-conflicts -k mine", says: "serverside-applied"},
	{
		documented: "helm install ingress-daemonset-controller charts/ingress-daemonset-controller --namespace ingress-daemonset-system --create-namespace --set image.repository=registry.example.com/ingress-daemonset-controller,image.tag=v1",
		before:     uninstall, says: "Before an uninstall, delete the IngressDaemonSets",
	},
	{documented: "kubectl label namespace ingress-daemonset-system pod-security.kubernetes.io/enforce=restricted", says: "namespace/ingress-daemonset-system"},
	{
		documented: "helm upgrade ingress-daemonset-controller charts/ingress-daemonset-controller --namespace ingress-daemonset-system --reset-then-reuse-values --set image.tag=v2",
		run:        "helm upgrade ingress-daemonset-controller charts/ingress-daemonset-controller --namespace ingress-daemonset-system --reset-then-reuse-values --set image.tag=v1,verbosity=1",
		before:     serveAgain, says: "REVISION: 2", after: keepsPods,
	},
	{
		documented: "helm upgrade ingress-daemonset-controller charts/ingress-daemonset-controller --namespace ingress-daemonset-system --reset-then-reuse-values --set image.tag=v2 --take-ownership --server-side=true --force-conflicts",
		run:        "helm upgrade ingress-daemonset-controller charts/ingress-daemonset-controller --namespace ingress-daemonset-system --reset-then-reuse-values --set image.tag=v1,verbosity=2 --take-ownership --server-side=true --force-conflicts",
		says:       "REVISION: 3", after: keepsPods,
	},
	{documented: "helm rollback ingress-daemonset-controller --namespace ingress-daemonset-system", says: "Rollback was a success", after: keepsPods},
	{documented: "helm get values ingress-daemonset-controller --namespace ingress-daemonset-system", says: "tag: v1"},
	{documented: "kubectl get deployment ingress-daemonset-controller --namespace ingress-daemonset-system -o wide", says: "registry.example.com/ingress-daemonset-controller:v1"},
	{documented: "helm uninstall ingress-daemonset-controller --namespace ingress-daemonset-system", before: endForGood, says: "uninstalled", after: keepsCRD},
	{
		documented: "kubectl delete -k config/crd", says: "deleted",
		after: func(ctx context.Context, u *reader) { u.must(ctx, "kubectl apply --server-side -k config/crd") },
	},
}

// onOwnCluster are those that need no cluster, or start one.
var onOwnCluster = []step{
	{documented: "make help", says: "make demo"},
	{documented: "make cluster NODES=3", local: true, says: "ready"},
	{documented: "make cluster", local: true, says: "next: make deploy"},
	{documented: "export KUBECONFIG=$PWD/.cluster/kubeconfig PATH=$PWD/.cluster/bin:$PATH", local: true},
	{documented: "make deploy", local: true, says: "the controller runs in namespace ingress-daemonset-system", after: applyToLocal},
	{
		documented: `go run ./test/lab run -- curl -si "http://$(kubectl get node node-1 -o jsonpath='{.status.addresses[0].address}')/"`,
		run:        onLocal + `go run ./test/lab run -- curl -si "http://$(kubectl get node node-1 -o jsonpath='{.status.addresses[0].address}')/"`,
		local:      true, says: "200 OK",
	},
	{documented: "make push", fails: "say where to"},
	{documented: "make cluster-down", local: true},
	{documented: "make demo", local: true, says: "The IngressDaemonSet lost 0 of"},
	{documented: "make demo SIMULATED=1", local: true, says: "no traffic"},
	{documented: "make soak CHECKS=12000", run: "make soak-simulation CHECKS=20 SEED=1", says: "ok"},
	{documented: "make fuzz", run: "make fuzz FUZZ=FuzzVerify FUZZTIME=1s", says: "ok"},
	{documented: "make aws-check", fails: "set AWS_CHECK_TARGET_GROUP to"},
	{documented: "go test ./internal/rollout/controller -run TestConvergence -first=43 -draws=1", says: "ok"},
	{documented: "go test ./test/attaching -run TestAttaching -v -first=43 -draws=1 -tell", says: "ok"},
	{documented: "go test ./internal/rollout/controller ./internal/targets ./internal/detach -run TestStories -update", says: "ok"},
	{documented: "go test ./internal/rollout/objects -run TestExamples -update", says: "ok"},
	{documented: "go test ./internal/rollout/controller ./internal/targets -run TestRecordedHealth -update", says: "ok"},
	{documented: "GOWORK=off go test -C tools/health ./...", says: "ok"},
	{documented: "go test ./test/structure -run TestMap -update", says: "ok"},
	{documented: "go doc ./internal/rollout", says: "Its files, in the order in which to open them"},
	{documented: "go run ./tools/figures -arrows internal/rollout", says: "arrows run back"},
	{documented: "go test ./test/docs -run TestMetrics -update", says: "ok"},
	{documented: "go test ./test/monitoring -run TestDashboard -update", says: "ok"},
	{documented: "go test ./internal/nodehealth/connections -run none -bench Dump", run: "go test ./internal/nodehealth/connections -run none -bench Dump -benchtime 1x", says: "ok"},
}

//nolint:unused // test/docs reads them
const (
	ofWebhook = "test/webhook runs it"
	ofAccount = "it asks for an account with AWS"
	ofTenants = "test/api runs it"
	ofRunbook = "test/api/controller runs it"
)

// elsewhere are command lines that this test does not run, and why.
//
//nolint:unused // test/docs reads them
var elsewhere = map[string]string{
	"make test":         "this is part of it",
	"make check":        "make test runs it",
	"make unit":         "make test runs it",
	"make race":         "make test runs it",
	"make cluster-test": "make test runs it",
	"make generate":     "make check runs it",
	"make bench":        "it takes an hour",
	"make oldest":       "it builds another Kubernetes first, for minutes",
	"make demo-ingress": "TestDocumentedIngress runs the guide that it plays",
	"make demo-aws":     "test/balancer runs its cases",
	"make conformance":  "make test runs its core tests",
	"make peers":        "make test runs all but one of its tests",
	"make soak-aws":     "it takes half an hour",
	"make soak-ingress": "it takes a quarter of an hour",
	"make lint":         "it builds a linter first, for minutes",
	"make docs":         "it changes the documentation",
	"make release":      "the test of tools/release makes one for fewer platforms",

	`aws autoscaling describe-auto-scaling-groups --query "AutoScalingGroups[?contains(HealthCheckType, 'ELB')].[AutoScalingGroupName, HealthCheckType, TargetGroupARNs]"`: ofAccount,
	"aws autoscaling update-auto-scaling-group --auto-scaling-group-name NAME --health-check-type EC2":                                                                     ofAccount,
	"aws elbv2 register-targets --target-group-arn ARN --targets Id=INSTANCE,Port=PORT":                                                                                    ofAccount,
	"aws elbv2 add-tags --resource-arns ARN --tags 'Key=ingressdaemonsets.mumoshu.github.io/namespaces,Value=web api'":                                                     ofAccount,

	"openssl rand -hex 32 > secret":                                                                ofWebhook,
	"go build -o webhook-haproxy ./examples/webhook-haproxy":                                       ofWebhook,
	"./webhook-haproxy -listen 127.0.0.1:9180 -secret-file secret -socket /run/haproxy/admin.sock": ofWebhook,
	`body='{"id":"a-try","action":"detach","node":{"name":"node-1"}}'`:                             ofWebhook,
	"t=$(date +%s)": ofWebhook,
	`v1=$(printf '%s.%s' "$t" "$body" | openssl dgst -sha256 -hmac "$(cat secret)" -r | cut -d ' ' -f 1)`: ofWebhook,
	`curl -i -H "Ingress-Daemonset-Signature: t=$t,v1=$v1" -d "$body" http://127.0.0.1:9180/`:             ofWebhook,

	"kubectl create clusterrolebinding ingress-detachers --clusterrole=ingress-daemonset-detacher --group=ingress-team":                                                                    ofTenants,
	"kubectl create clusterrole assume-ingress --verb=assume --resource=targetgroupattachments.ingressdaemonsets.mumoshu.github.io --resource-name=arn:aws:iam::123456789012:role/ingress": ofTenants,
	"kubectl create clusterrolebinding assume-ingress --clusterrole=assume-ingress --serviceaccount=NAMESPACE:deployer":                                                                    ofTenants,

	"kubectl get endpointslices -l kubernetes.io/service-name=NAME -o yaml | sed 's/ready: false/ready: true/; s/terminating: true/terminating: false/' | kubectl replace -f -": ofRunbook,

	"go test ./test/e2e -v -timeout 60m -run TestHostNetwork":                                           "make test runs the whole package",
	"go test -v ./test/conformance":                                                                     "make test runs it",
	"go test -v ./test/peers -skip TestScan":                                                            "make test runs it",
	"go test ./test/peers -run TestH2spec -update":                                                      "it changes the documentation",
	"go test ./test/balancer -v -timeout 60m":                                                           "make test runs it",
	"go test ./test/e2e -run TestComparison -update":                                                    "it changes the documentation",
	"go test -v ./test/variants":                                                                        "make test runs it",
	"go test -count 1 ./api/... ./cmd/... ./internal/... ./test/attaching ./test/docs ./test/structure": "make test runs all of it",
}

// TestDocumentedCommands runs every command line of the documentation that is about a cluster, in a copy of
// the project, as a user who follows it would. test/docs holds the list against the pages.
func TestDocumentedCommands(t *testing.T) {
	u := newReader(t)
	t.Cleanup(u.restore)
	u.followAll(documented)
}

// TestDocumentedOnOwnCluster runs all others, one after another.
func TestDocumentedOnOwnCluster(t *testing.T) {
	newReader(t).followAll(onOwnCluster)
}
