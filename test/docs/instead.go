package docs

// Played are the sections of pages, by their headings, whose every command a test of their own runs as it stands
// there, but for what Instead has.
var Played = map[string][]string{
	// TestQuickstart of test/e2e
	"docs/quickstart.md": {"A cluster", "The image", "The controller", "Proxies on every node", "A rollout", "Remove it all"},
}

// InPlace is what is run in place of a command line.
type InPlace struct {
	// Run gives those that follow what they need; empty where they need nothing.
	Run string
	// By says where what the command does is tested, or why it is not.
	By string
}

const ofKind = "nothing: kind starts its nodes with docker, and from an image of its own; TestQuickstart has the cluster of test/e2e"

// Instead are the command lines of pages that cannot run where the tests do, since they need AWS, a name in
// DNS, or a cluster or an image that nobody here has.
var Instead = map[string]InPlace{
	"kind create cluster --name ingress --config docs/kind.yaml": {"", ofKind},
	"kind delete cluster --name ingress":                         {"", ofKind},
	"export KUBECONFIG=$HOME/.kube/config":                       {"export KUBECONFIG=$KUBECONFIG", "TestQuickstart: that of its cluster, since whoever runs it may have another one there"},
	// HOST is the address of the local cluster's registry.
	"export REGISTRY=registry.example.com/ingress": {"export REGISTRY=HOST:5000/ingress", "TestQuickstart: the registry of its cluster, since nobody serves example.com"},
}

// PlayedCommands are the command lines of a page that its own test runs, in their order.
func PlayedCommands(name, page string) []string {
	var out []string
	for _, heading := range Played[name] {
		out = append(out, Commands(Section(page, heading))...)
	}
	return out
}
