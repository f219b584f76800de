package docs

import (
	"regexp"
	"strings"
)

// Played are the sections of pages, by their headings, whose every command a test of their own runs as it stands
// there, but for what Instead has.
var Played = map[string][]string{
	// TestQuickstart of test/e2e
	"docs/quickstart.md": {"A cluster", "The image", "The controller", "Proxies on every node", "A rollout", "Remove it all"},
	// TestMoveFromADaemonSet of test/e2e
	"docs/guides/migrate.md": {"Prepare", "Move a node", "Move a node back", "When all nodes have moved"},
	// TestACMEStore
	"docs/guides/migrate-traefik.md": {"ACME first"},
	// TestEKS of test/targets
	"docs/guides/eks.md": {
		"Names", "Security groups", "The load balancer", "The controller's role", "By IRSA", "By Pod Identity", "Install", "Nodes as targets", "Pods as targets", "Take it down",
	},
	// TestDocumentedIngress of test/e2e
	"docs/guides/ingress.md": {
		"The proxies", "Three cheeses", "An Ingress for each", "A plate of cheese", "What an operator sees", "A canary that moves",
		"Two classes", "The class of an Ingress that names none", "The old annotation", "TLS", "The console", "In a browser", "The Gateway API", "Remove it all",
	},
}

// InPlace is what is run in place of a command line.
type InPlace struct {
	// Run gives those that follow what they need; empty where they need nothing.
	Run string
	// By says where what the command does is tested, or why it is not.
	By string
}

const (
	ofKind     = "nothing: kind starts its nodes with docker, and from an image of its own; TestQuickstart has the cluster of test/e2e"
	ofChart    = "nothing: neither that chart nor its image is here; each value was looked up in the chart's source"
	ofConvert  = "TestExamples of internal/conversion converts such objects"
	ofOwner    = "TestHandOver of test/targets: an imitation of that controller is stopped and started"
	ofOwnerPod = "TestHandOver of test/targets: a TargetGroupAttachment of that kind"
	ofACME     = "TestACMEStore: a store that is made up, since no Traefik runs here, nor an ACME server"

	ofSecurityGroups = "nothing: the emulator of AWS has no security groups, and load balancers without an address"
	ofNoIAM          = "nothing: the emulator of AWS has no IAM and no EKS from which anything could be deleted"
	ofUninstall      = "test/install uninstalls the chart with the CRDs; the controller of test/targets is none of the chart's"
	ofTrust          = "TestEKSTrust of test/targets: a role of the emulator by the page's policies, and tokens of the API server"
)

// Instead are the command lines of pages that cannot run where the tests do, since they need AWS, a name in
// DNS, or a cluster or an image that nobody here has.
var Instead = map[string]InPlace{
	"kind create cluster --name ingress --config docs/kind.yaml":                   {"", ofKind},
	"kind delete cluster --name ingress":                                           {"", ofKind},
	"kind load image-archive dist/ingress-daemonset-controller.tar --name ingress": {"", ofKind},
	"export KUBECONFIG=$HOME/.kube/config":                                         {"export KUBECONFIG=$KUBECONFIG", "TestQuickstart: that of its cluster, since whoever runs it may have another one there"},
	// HOST is the address of the local cluster's registry.
	"export REGISTRY=registry.example.com/ingress":                                                                              {"export REGISTRY=HOST:5000/ingress", "TestQuickstart: the registry of its cluster, since nobody serves example.com"},
	`VPC=$(aws eks describe-cluster --name $CLUSTER --query cluster.resourcesVpcConfig.vpcId --output text)`:                    {"VPC=vpc-1", "TestEKS: the emulator's VPC"},
	`NODES=$(aws eks describe-cluster --name $CLUSTER --query cluster.resourcesVpcConfig.clusterSecurityGroupId --output text)`: {"NODES=sg-nodes", ofSecurityGroups},
	`SUBNETS=$(aws ec2 describe-subnets --filters Name=vpc-id,Values=$VPC Name=tag:kubernetes.io/role/elb,Values=1 --query 'Subnets[].SubnetId' --output text)`: {
		"SUBNETS='subnet-a subnet-b'", "TestEKS: those of the emulator's VPC"},
	`FRONT=$(aws ec2 create-security-group --group-name ingress --description 'Load balancer of the ingress' --vpc-id $VPC --query GroupId --output text)`: {"FRONT=sg-front", ofSecurityGroups},
	"aws ec2 authorize-security-group-ingress --group-id $FRONT --protocol tcp --port 80 --cidr 0.0.0.0/0":                                                 {"", ofSecurityGroups},
	"aws ec2 authorize-security-group-ingress --group-id $NODES --protocol tcp --port 80 --source-group $FRONT":                                            {"", ofSecurityGroups},
	"aws ec2 authorize-security-group-ingress --group-id $NODES --protocol tcp --port 10080 --source-group $FRONT":                                         {"", ofSecurityGroups},
	"aws ec2 authorize-security-group-ingress --group-id $FRONT --protocol tcp --port 8080 --cidr 0.0.0.0/0":                                               {"", ofSecurityGroups},
	"aws ec2 authorize-security-group-ingress --group-id $NODES --protocol tcp --port 8080 --source-group $FRONT":                                          {"", ofSecurityGroups},
	"aws ec2 authorize-security-group-ingress --group-id $NODES --protocol tcp --port 10254 --source-group $FRONT":                                         {"", ofSecurityGroups},

	"aws iam create-policy --policy-name ingress-daemonset-controller --policy-document file://config/aws/policy-by-tag.json": {
		"", "TestTagged and TestEKSTrust of test/targets, whose users have this policy"},
	"ISSUER=$(aws eks describe-cluster --name $CLUSTER --query cluster.identity.oidc.issuer --output text)": {
		"ISSUER=https://kubernetes.default.svc.cluster.local", ofTrust},
	"aws iam create-open-id-connect-provider --url $ISSUER --client-id-list sts.amazonaws.com":                                                                                                                               {"", ofTrust},
	"aws iam create-role --role-name ingress-daemonset-controller --assume-role-policy-document file://trust.json":                                                                                                           {"", ofTrust},
	"aws iam create-role --role-name ingress-daemonset-controller --assume-role-policy-document file://config/aws/trust-pod-identity.json":                                                                                   {"", ofTrust},
	"aws iam attach-role-policy --role-name ingress-daemonset-controller --policy-arn arn:aws:iam::$ACCOUNT:policy/ingress-daemonset-controller":                                                                             {"", ofTrust},
	"aws eks create-addon --cluster-name $CLUSTER --addon-name eks-pod-identity-agent":                                                                                                                                       {"", ofTrust + ", which the emulator takes in the agent's place"},
	"aws eks create-pod-identity-association --cluster-name $CLUSTER --namespace ingress-daemonset-system --service-account ingress-daemonset-controller --role-arn arn:aws:iam::$ACCOUNT:role/ingress-daemonset-controller": {"", ofTrust},

	"helm upgrade ingress-daemonset-controller charts/ingress-daemonset-controller --namespace ingress-daemonset-system --reset-then-reuse-values --set proxy.enabled=true": {
		"", "test/chart renders the chart with this value, and the controller of test/e2e runs with what that is"},
	`chromium --host-resolver-rules="MAP *.nip.io $ADDRESS" http://cheddar.$ADDRESS.nip.io/`: {
		`chromium --headless --no-sandbox --disable-gpu --user-data-dir=$PWD/chromium --hide-scrollbars --window-size=640,480 --screenshot=cheddar.png --host-resolver-rules="MAP *.nip.io $ADDRESS" http://cheddar.$ADDRESS.nip.io/`,
		"TestDocumentedIngress: the same without a window, as root"},
	"kubectl port-forward $(kubectl get pods -l app=proxy -o name | head -n 1) 9080": {
		`kubectl port-forward $(kubectl get pods -l app=proxy -o name | head -n 1) 9080 >/dev/null & forward=$!; curl -so /dev/null --retry 60 --retry-delay 1 --retry-connrefused http://localhost:9080/; chromium --headless --no-sandbox --disable-gpu --user-data-dir=$PWD/chromium --dump-dom http://localhost:9080/; kill $forward`,
		"TestDocumentedIngress: the same, until a browser without a window has shown the console"},
	"kubectl apply --server-side -f https://github.com/kubernetes-sigs/gateway-api/releases/download/v1.6.3/standard-install.yaml": {
		"kubectl apply --server-side -f $(go list -m -f {{.Dir}} sigs.k8s.io/gateway-api)/config/crd/standard", "TestDocumentedIngress: the same kinds, of the module"},

	"helm install ingress-daemonset-controller charts/ingress-daemonset-controller --namespace ingress-daemonset-system --create-namespace --values values.yaml": {
		"", "test/chart renders the chart with these values, test/install installs it with others; the controller of test/targets runs with the same flags"},
	"curl -si http://$(aws elbv2 describe-load-balancers --load-balancer-arns $BALANCER --query 'LoadBalancers[0].DNSName' --output text)/": {
		"aws elbv2 describe-load-balancers --load-balancer-arns $BALANCER --query 'LoadBalancers[0].DNSName' --output text", "the rest: test/balancer sends traffic through the emulator's load balancers"},

	`FRONT=$(aws ec2 describe-security-groups --filters Name=group-name,Values=ingress Name=vpc-id,Values=$VPC --query 'SecurityGroups[0].GroupId' --output text)`: {"FRONT=sg-front", ofSecurityGroups},
	"aws ec2 revoke-security-group-ingress --group-id $NODES --protocol tcp --port 80 --source-group $FRONT":                                                       {"", ofSecurityGroups},
	"aws ec2 revoke-security-group-ingress --group-id $NODES --protocol tcp --port 10080 --source-group $FRONT":                                                    {"", ofSecurityGroups},
	"aws ec2 revoke-security-group-ingress --group-id $NODES --protocol tcp --port 8080 --source-group $FRONT":                                                     {"", ofSecurityGroups},
	"aws ec2 revoke-security-group-ingress --group-id $NODES --protocol tcp --port 10254 --source-group $FRONT":                                                    {"", ofSecurityGroups},
	"aws ec2 delete-security-group --group-id $FRONT":                                                                                                              {"", ofSecurityGroups},
	"kubectl delete -f nodes.yaml -f pods.yaml": {
		`kubectl patch tga nginx pods --type=merge -p '{"spec":{"detachFloorSeconds":0}}' && kubectl delete tga nginx pods && kubectl delete ids nginx pods --cascade=orphan && kubectl delete configmap nginx pods`,
		"TestEKS, of targets without a settle time; the pods' end is that of every IngressDaemonSet, in test/e2e and test/balancer"},
	"helm uninstall ingress-daemonset-controller --namespace ingress-daemonset-system --wait": {"", ofUninstall},
	"kubectl delete --wait -k config/crd":                                                     {"", ofUninstall},
	"kubectl delete clusterrole ingress-daemonset-healthchecker":                              {"", ofUninstall},
	"kubectl delete namespace ingress-daemonset-system":                                       {"", ofUninstall},
	"ASSOCIATION=$(aws eks list-pod-identity-associations --cluster-name $CLUSTER --namespace ingress-daemonset-system --service-account ingress-daemonset-controller --query 'associations[0].associationId' --output text)": {"", ofNoIAM},
	"aws eks delete-pod-identity-association --cluster-name $CLUSTER --association-id $ASSOCIATION":                                                                                                                           {"", ofNoIAM},
	"aws iam detach-role-policy --role-name ingress-daemonset-controller --policy-arn arn:aws:iam::$ACCOUNT:policy/ingress-daemonset-controller":                                                                              {"", ofNoIAM},
	"aws iam delete-role --role-name ingress-daemonset-controller":                                                                                                                                                            {"", ofNoIAM},
	"aws iam delete-policy --policy-arn arn:aws:iam::$ACCOUNT:policy/ingress-daemonset-controller":                                                                                                                            {"", ofNoIAM},
	"aws iam delete-open-id-connect-provider --open-id-connect-provider-arn arn:aws:iam::$ACCOUNT:oidc-provider/${ISSUER#https://}":                                                                                           {"", ofNoIAM},
	"aws eks delete-addon --cluster-name $CLUSTER --addon-name eks-pod-identity-agent":                                                                                                                                        {"", ofNoIAM},

	"kubectl ids from daemonset/ingress-nginx-controller -n ingress-nginx > proxy.yaml":                                                                                                       {"", ofConvert},
	"helm upgrade ingress-nginx ingress-nginx --repo https://kubernetes.github.io/ingress-nginx --version 4.15.1 --namespace ingress-nginx --reset-then-reuse-values --values keep-away.yaml": {"", ofChart},
	"helm upgrade ingress-nginx ingress-nginx --repo https://kubernetes.github.io/ingress-nginx --version 4.15.1 --namespace ingress-nginx --reset-then-reuse-values --values control.yaml":   {"", ofChart},
	"kubectl apply -f proxy.yaml":                                                   {"", ofConvert},
	"helm rollback ingress-nginx --namespace ingress-nginx":                         {"", ofChart},
	"kubectl exec -n traefik deployment/traefik -- cat /data/acme.json > acme.json": {"", ofACME},
	"kubectl create secret tls www-example-com --cert=tls.crt --key=tls.key":        {"", "TestACMEStore reads the pair; kubectl makes the Secret"},
	"kubectl ids from deployment/traefik -n traefik > proxy.yaml":                   {"", ofConvert},
	"helm upgrade traefik traefik --repo https://traefik.github.io/charts --version 41.3.0 --namespace traefik --reset-then-reuse-values --set deployment.enabled=false": {"", ofChart},
	"helm rollback traefik --namespace traefik": {"", ofChart},

	"kubectl scale deployment kube-ingress-aws-controller -n kube-system --replicas=0": {"", ofOwner},
	"kubectl scale deployment kube-ingress-aws-controller -n kube-system --replicas=1": {"", ofOwner},
	"kubectl apply -f old.yaml -f new.yaml":                                            {"", ofOwnerPod},
	"kubectl wait -n kube-system tga/old tga/new --for=condition=Ready --timeout=10m":  {"", ofOwnerPod},
	"kubectl -n ingress-daemonset-system wait pod -l app.kubernetes.io/name=ingress-daemonset-controller --for=delete --timeout=2m": {
		"", "TestHandOver of test/targets, whose controller has ended when that goes on"},
	"kubectl delete tga new -n kube-system --wait=false":                                      {"", ofOwnerPod},
	`kubectl patch tga new -n kube-system --type=merge -p '{"metadata":{"finalizers":null}}'`: {"", ofOwnerPod},
}

// PlayedCommands are the command lines of a page that its own test runs, in their order.
func PlayedCommands(name, page string) []string {
	var out []string
	for _, heading := range Played[name] {
		out = append(out, Commands(Section(page, heading))...)
	}
	return out
}

// network are programs of pages that reach nodes, or the registry from which these pull.
var network = regexp.MustCompile(`^make push |\b(curl|chromium) `)

// ReachesNodes reports whether a command line is for a machine that reaches the nodes' addresses.
func ReachesNodes(line string) bool {
	return network.MatchString(line) && !strings.Contains(line, "//localhost:")
}
