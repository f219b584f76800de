package structure

import (
	"slices"
	"strings"
	"testing"
)

// kind is what a package is for. It says what the package may import.
type kind string

const (
	contract   kind = "API"
	pure       kind = "pure"
	controller kind = "controller"
	adapter    kind = "adapter"
	command    kind = "command"
	example    kind = "example"
)

// kinds are those of what is shipped, in the order in which a newcomer should open them.
var kinds = []kind{contract, pure, controller, adapter, command, example}

// rule is what a package may import: of this module the packages that are named in own, and, where
// it is pure, of others what is named in others.
type rule struct {
	path        string
	kind        kind
	own, others []string
}

// decides reports whether a package is pure. One that decides imports the standard library but for what
// acts or remembers.
func (r rule) decides() bool { return r.kind == contract || r.kind == pure }

// kubernetesTypes are modules of plain types and pure functions.
var kubernetesTypes = []string{"k8s.io/api/", "k8s.io/apimachinery/", "sigs.k8s.io/gateway-api/apis/"}

// healthclient is the one client of the health checker's protocol, which controllers may act
// through.
const healthclient = "internal/nodehealth/healthclient"

// onepass calls for the passes of controllers that pass over all objects at once, and says of any when what
// failed in one is tried again.
const onepass = "internal/onepass"

// recorder makes the events of controllers.
const recorder = "internal/recorder"

// peers has the proxies of a node answer each other, for what they answer together.
const peers = "internal/proxy/peers"

// message is what both ends of the proxy read of HTTP/1.1.
const message = "internal/proxy/message"

// rules name every package that is shipped, in the order in which a newcomer should open them:
// CONTRIBUTING's map is made from them. Controllers and adapters act on what a pure package decided: on
// their own and on no other of them but healthclient, onepass and recorder; the proxy also on what speaks HTTP/1.1 for it, both
// ends of the stream on what carries it, and what proxies of a node answer together on peers. Commands wire them.
// Examples are programs as users write them, with the standard library and what this module has for users.
var rules = []rule{
	{"api/v1alpha1", contract, nil, kubernetesTypes},
	{"api/v1alpha1/webhook", contract, nil, nil},

	{"internal/rollout", pure, []string{"api/v1alpha1", "internal/kstatus"}, kubernetesTypes},
	{"internal/rollout/objects", pure, []string{"api/v1alpha1", "internal/rollout"}, append([]string{"k8s.io/component-helpers/scheduling/", "k8s.io/utils/"}, kubernetesTypes...)},
	{"internal/rollout/forecast", pure, []string{"api/v1alpha1", "internal/rollout"}, kubernetesTypes},
	{"internal/rollout/recorded", pure, nil, nil},
	{"internal/nodehealth", pure, []string{"api/v1alpha1"}, kubernetesTypes},
	{"internal/targets", pure, []string{"api/v1alpha1", "internal/kstatus"}, append([]string{"golang.org/x/time/rate/"}, kubernetesTypes...)},
	{"internal/targets/awscli", pure, []string{"internal/targets"}, nil},
	{"internal/detach", pure, []string{"api/v1alpha1", "internal/kstatus"}, kubernetesTypes},
	{"internal/kstatus", pure, []string{"api/v1alpha1"}, kubernetesTypes},
	{"internal/routing", pure, []string{"api/v1alpha1", "internal/rollout/objects", "internal/routing/wire"}, kubernetesTypes},
	{"internal/routing/wire", pure, nil, nil},
	{"internal/routing/table", pure, []string{"internal/routing/wire"}, nil},
	{"internal/routing/listing", pure, []string{"internal/routing/table", "internal/routing/wire"}, nil},
	{"internal/routing/stream", pure, []string{"internal/routing/wire"}, nil},
	{"internal/routing/identity", pure, []string{"api/v1alpha1"}, kubernetesTypes},
	{"internal/routing/authority", pure, nil, nil},
	{"internal/proxy/holdings", pure, []string{"internal/routing/table", "internal/routing/wire"}, nil},
	{"internal/proxy/balance", pure, []string{"internal/routing/wire"}, nil},
	{"internal/conversion", pure, []string{"api/v1alpha1"}, append([]string{"go.yaml.in/yaml/v3/"}, kubernetesTypes...)},

	{"internal/rollout/controller", controller, []string{"api/v1alpha1", healthclient, onepass, recorder, "internal/rollout", "internal/rollout/objects"}, nil},
	{"internal/targets/controller", controller, []string{"api/v1alpha1", healthclient, onepass, recorder, "internal/targets"}, nil},
	{"internal/detach/controller", controller, []string{"api/v1alpha1", "api/v1alpha1/webhook", onepass, recorder, "internal/detach"}, nil},
	{"internal/routing/controller", controller, []string{"api/v1alpha1", onepass, recorder, "internal/routing", "internal/routing/delta", "internal/routing/gatewayapi", "internal/routing/wire"}, nil},
	{"internal/routing/issuer", controller, []string{"api/v1alpha1", onepass, recorder, "internal/routing", "internal/routing/authority", "internal/routing/delta", "internal/routing/gatewayapi"}, nil},

	{"internal/nodehealth/server", adapter, []string{"api/v1alpha1", "internal/nodehealth"}, nil},
	{"internal/nodehealth/connections", adapter, []string{"api/v1alpha1"}, nil},
	{healthclient, adapter, []string{"api/v1alpha1"}, nil},
	{onepass, adapter, nil, nil},
	{recorder, adapter, nil, nil},
	{"internal/garbage", adapter, nil, nil},
	{"internal/analysis", adapter, []string{"api/v1alpha1", "internal/rollout"}, nil},
	{"internal/targets/aws", adapter, []string{"internal/targets"}, nil},
	{"internal/detach/webhook", adapter, []string{"api/v1alpha1/webhook"}, nil},
	{"internal/routing/delta", adapter, []string{"internal/routing/stream", "internal/routing/wire"}, nil},
	{"internal/routing/gatewayapi", adapter, nil, nil},
	{"internal/routing/reviewer", adapter, []string{"api/v1alpha1", "internal/routing/delta", "internal/routing/identity"}, nil},
	{"internal/proxy/subscription", adapter, []string{"internal/proxy/holdings", "internal/routing/delta", "internal/routing/table", "internal/routing/wire"}, nil},
	{message, adapter, nil, nil},
	{"internal/proxy/downstream", adapter, []string{message}, nil},
	{"internal/proxy/upstream", adapter, []string{message}, nil},
	{"internal/proxy", adapter, []string{"internal/proxy/balance", "internal/proxy/downstream", message, "internal/proxy/upstream", "internal/routing/table", "internal/routing/wire"}, nil},
	{peers, adapter, nil, nil},
	{"internal/proxy/console", adapter, []string{peers, "internal/routing/listing", "internal/routing/table", "internal/routing/wire"}, nil},
	{"internal/proxy/scrape", adapter, []string{peers}, nil},
	{"internal/kubectl", adapter, []string{
		"api/v1alpha1", "internal/conversion", "internal/kstatus", "internal/rollout", "internal/rollout/forecast", "internal/rollout/objects", "internal/detach", "internal/targets",
		"internal/targets/awscli", "internal/routing", "internal/routing/listing", "internal/routing/table", "internal/routing/wire",
	}, nil},

	{"cmd/controller", command, []string{
		"api/v1alpha1", "api/v1alpha1/webhook", "internal/analysis", "internal/garbage", "internal/rollout", "internal/rollout/controller", "internal/detach", "internal/detach/controller",
		"internal/detach/webhook", "internal/targets", "internal/targets/aws", "internal/targets/controller",
		"internal/routing", "internal/routing/controller", "internal/routing/delta", "internal/routing/gatewayapi", "internal/routing/issuer", "internal/routing/reviewer",
	}, nil},
	{"cmd/healthchecker", command, []string{"internal/nodehealth", "internal/nodehealth/connections", "internal/nodehealth/server"}, nil},
	{"cmd/proxy", command, []string{"internal/garbage", "internal/proxy", "internal/proxy/console", peers, "internal/proxy/scrape", "internal/proxy/subscription", "internal/routing/delta", "internal/routing/table", "internal/routing/wire"}, nil},
	{"cmd/kubectl-ids", command, []string{"internal/kubectl"}, nil},

	{"examples/webhook-haproxy", example, []string{"api/v1alpha1/webhook"}, nil},
}

func ruleOf(path string) (r rule, found bool) {
	at := slices.IndexFunc(rules, func(r rule) bool { return r.path == path })
	if at < 0 {
		return rule{}, false
	}
	return rules[at], true
}

// ships reports whether a package is neither for tests nor a tool.
func ships(path string) bool {
	return !slices.ContainsFunc([]string{"internal/testing/", "test/", "tools/"}, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// TestRules lets rules be in the order of their kinds, and each be about a package that is there.
func TestRules(t *testing.T) {
	there := map[string]bool{}
	for _, p := range packages(t) {
		there[p.path()] = true
	}
	before := 0
	for _, r := range rules {
		if !there[r.path] {
			t.Errorf("there is no package %s, or it is named twice: strike it out of rules", r.path)
		}
		there[r.path] = false
		at := slices.Index(kinds, r.kind)
		if at < before {
			t.Errorf("%s (%s) stands after a %s: put it with its kind in rules", r.path, r.kind, kinds[before])
		}
		before = max(before, at)
	}
}
