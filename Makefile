# Everything that is done with this project begins here: make help.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# Nodes of `make cluster`, and simulated nodes of it and of `make demo SIMULATED=1`.
NODES ?= 3
SIMULATED_NODES ?=

export CGO_ENABLED ?= 0
# make check has vet look at everything once, and not each go test again.
export GOFLAGS += -vet=off
# What is told apart below by modules is one workspace, whatever the environment says.
unexport GOWORK

ROOT := $(filter 0,$(shell id -u))
# They need nodes, or Debian packages that only root can install.
NEED_ROOT := test/e2e test/balancer test/conformance tools/images test/lb test/aws test/monitoring test/webhook
# What is unpacked of Debian's packages needs no root.
NEED_DEBIAN := $(if $(shell command -v apt-get),,test/peers)
LEFT_OUT := $(if $(ROOT),,$(NEED_ROOT) $(NEED_DEBIAN))

# Controllers and adapters, in which goroutines meet; their tests run under the race detector. What takes longest begins
# first. They wait for two fifths of their time, so that twice as many run at a time as there are processors.
RACED = nodehealth/server rollout/controller targets/controller proxy routing/controller routing/issuer kubectl \
	analysis detach/controller detach/webhook garbage nodehealth/connections nodehealth/healthclient onepass \
	proxy/console proxy/downstream proxy/message proxy/peers proxy/scrape proxy/subscription proxy/upstream recorder \
	routing/delta routing/gatewayapi routing/reviewer targets/aws
RACE_AT_A_TIME = $(shell echo $$((2 * $$(nproc))))
RACED_PACKAGES = $(addprefix ./internal/,$(RACED))
# Of these, what is played whole without it: it takes eight times as long under it.
SIMULATION := TestConvergence|TestTightNodes|TestDeletion
# What takes longest begins first, and beside it what is played whole, so that at the end no processor is left idle.
UNIT_TESTS = ./internal/targets $(filter-out %/internal/targets $(addprefix %/internal/,$(RACED)),$(shell go list ./...)) ./test/attaching
CLUSTER_TESTS = $(filter-out %/test/attaching $(addprefix %/,$(LEFT_OUT)),$(shell go list ./test/... ./tools/...))

GENERATED = api/v1alpha1/zz_generated.deepcopy.go config/crd docs/reference charts

.PHONY: help
help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What is played beside something else is a process group of its own (set -m), which is interrupted as a whole, as by
# Ctrl-C: the go command that is ended alone leaves the tests running that it started. From a terminal it reads nothing,
# which would stop it.
INTERRUPT := kill -INT --

# The go command says nothing while it compiles.
COMPILING = echo 'compiling (1 to 2 min when nothing is cached)'

.PHONY: demo
demo: ## Roll out nginx under traffic, as an IngressDaemonSet and as a DaemonSet (KEEP=1 keeps the cluster; SIMULATED=1 needs no root)
	@$(COMPILING)
	@go run ./test/demo $(if $(SIMULATED),-simulated $(or $(SIMULATED_NODES),20)) $(if $(KEEP),-keep)

.PHONY: demo-ingress
demo-ingress: ## Serve three cheeses by Ingresses, behind HAProxy, as docs/guides/ingress.md does (root; KEEP=1 keeps the cluster)
	@go run ./test/demo -ingress $(if $(KEEP),-keep)

.PHONY: demo-aws
demo-aws: ## Move the targets of a load balancer under traffic, in every way there is, before an emulator of AWS (root; KEEP=1 keeps the cluster)
	@$(COMPILING)
	@go run ./test/lab balancer $(if $(KEEP),-keep)

.PHONY: test
test: check unit cluster-test ## Run everything: checks, unit tests, simulation, API-server and real-cluster tests

.PHONY: check
check: ## Look for unformatted code, what vet finds, and stale generated files
	@echo '== gofmt, go vet, generated files'
	@unformatted=$$(gofmt -l .); \
	if [[ -n $$unformatted ]]; then echo "not formatted, run gofmt -w: $$unformatted"; exit 1; fi
	@go vet ./... ./test/... ./tools/...
	@GOWORK=off go vet -C tools/health ./...
	@sums() { find $(GENERATED) -type f | sort | xargs sha256sum; }; \
	before=$$(sums); GOWORK=off go run -C tools/generate .; \
	if [[ $$before != "$$(sums)" ]]; then echo 'generated files were stale; they are up to date now: commit them'; exit 1; fi

.PHONY: unit
unit: race ## Run the tests that need nothing: unit tests and the simulation
	@echo '== unit tests and simulation'
	@log=$$(mktemp); set -m; go test -timeout 30m ./internal/rollout/controller -run '^($(SIMULATION))$$' </dev/null >"$$log" 2>&1 & simulation=$$!; set +m; \
	trap 'exit 130' INT TERM; trap '$(INTERRUPT) -$$simulation 2>/dev/null || true; rm -f "$$log"' EXIT; failed=0; \
	go test -timeout 30m $(UNIT_TESTS) || failed=1; \
	wait $$simulation || failed=1; cat "$$log"; exit $$failed
	@echo '== what kstatus, Flux and Argo CD make of recorded statuses'
	@GOWORK=off go test -C tools/health ./...

# The race detector needs a C compiler, which only root can install.
.PHONY: gcc
gcc:
ifneq ($(ROOT),)
	@command -v gcc >/dev/null || { echo 'installing gcc'; apt-get update -qq; \
		DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends gcc libc6-dev >/dev/null; }
endif

.PHONY: race
race: gcc ## Run the tests of controllers and adapters under the race detector (installs gcc, for root)
	@echo '== the tests of controllers and adapters, under the race detector'
	@if command -v gcc >/dev/null; then CGO_ENABLED=1 go test -race -p $(RACE_AT_A_TIME) -timeout 30m $(RACED_PACKAGES); \
	else echo 'without the race detector, since there is no gcc'; go test -timeout 30m $(RACED_PACKAGES); fi

# What is left out of `make test`, which is to end within an hour, is played here.
CHECKS ?= 12000
SEED ?= $(shell echo $$((RANDOM * 1000)))
LONG := TestSoakIngress|TestSingleEvents|TestMoveFromADaemonSet|TestChartOfTheReleaseBefore|TestComparison
RACED_ON_NODES := TestHostNetwork|TestControllerKilled
.PHONY: soak
soak: soak-simulation soak-nodes ## Try many other scenarios of the simulation than `make unit` does (CHECKS=12000 of each property, from SEED on), and on real nodes the longest, and some under the race detector (root)

.PHONY: soak-simulation
soak-simulation: ## Do the first half of `make soak`, which needs no cluster
	@seed=$(SEED); echo "== $(CHECKS) draws of each property, from seed $$seed on"; \
	GOGC=400 go test -count 1 -v -timeout 8h ./internal/rollout/controller -run '^($(SIMULATION))$$' -draws=$(CHECKS) -first=$$seed; \
	go test -count 1 -v -timeout 8h ./test/attaching -run TestAttaching -draws=$(CHECKS) -first=$$seed; \
	go test -count 1 -v -timeout 2h ./internal/targets -run Convergence -rapid.seed=$$((seed + 1)) -rapid.checks=$(CHECKS)

.PHONY: soak-nodes
soak-nodes: gcc ## Do the second half of `make soak` (root)
	@go test -count 1 -v -timeout 60m ./test/e2e -run '$(LONG)' -skip '^TestSoakIngress$$'
	@RACE=1 go test -count 1 -v -timeout 30m ./test/e2e -run '^($(RACED_ON_NODES))$$'

.PHONY: soak-ingress
soak-ingress: ## Change routes, endpoints and certificates of the proxy that comes with the controller for 10 minutes, under traffic (root)
	@go test -count 1 -v -timeout 40m ./test/e2e -run '^TestSoakIngress$$'

.PHONY: soak-aws
soak-aws: ## Roll out in AWS's own time what `make demo-aws` does in a tenth of it (root; takes half an hour)
	@go run ./test/lab balancer -scale 1 -case rollout-instance-targets -report soak-aws-report.json

.PHONY: aws-check
aws-check: ## Ask a real AWS account what the tests ask its emulator (says what to set)
	@AWS_CHECK=1 go test -count 1 -v ./test/account

# Of the cases of `make demo-aws`, those that take in most of the others: all take 25 minutes.
CASES ?= controller-killed|drain

# One half of test/e2e, by time: what follows pages as a reader would, the example of the specification, and one more, with
# which both take about as long.
SECOND_HALF := TestDocumented|TestQuickstart|TestExample|TestBadConfiguration|TestAPIServerDown
# What sends as many requests as the machine can while pods come and go.
ALONE := TestProxyEndpoints

# What takes minutes of test/peers.
SCAN := ^TestScan$$

# test/targets takes as long as all others two by two, most of it waiting. The variants compile beside both, at the
# lowest priority. What sends traffic to real nodes runs alone.
.PHONY: cluster-test
cluster-test: prepare ## Run the API-server and real-cluster tests
	@echo '== API-server and real-cluster tests, two packages at a time, and beside them test/targets'
	@echo '== and broken variants of the product, which the tests must catch'
	@logs=$$(mktemp -d); set -m; go test -count 1 -timeout 30m ./test/targets </dev/null >"$$logs/targets" 2>&1 & targets=$$!; \
	nice -n 19 go test -count 1 -v -timeout 50m ./test/variants </dev/null >"$$logs/variants" 2>&1 & variants=$$!; set +m; \
	trap 'exit 130' INT TERM; trap '$(INTERRUPT) -$$targets -$$variants 2>/dev/null || true; rm -rf "$$logs"' EXIT; failed=0; \
	go test -p 2 -count 1 -timeout 30m -skip '$(SCAN)' $(filter-out %/test/targets %/test/e2e %/test/balancer %/test/variants,$(CLUSTER_TESTS)) || failed=1; \
	wait $$targets || failed=1; cat "$$logs/targets"; wait $$variants || failed=1; cat "$$logs/variants"; exit $$failed
ifeq ($(LEFT_OUT),)
	@echo '== rollouts on real nodes, and beside them, on another cluster, the documented commands and others'
	@log=$$(mktemp); set -m; E2E_CLUSTER=ids-e2e-2 go test -count 1 -v -timeout 60m ./test/e2e -run '$(SECOND_HALF)' -skip '$(ALONE)|$(LONG)' </dev/null >"$$log" 2>&1 & second=$$!; set +m; \
	trap 'exit 130' INT TERM; trap '$(INTERRUPT) -$$second 2>/dev/null || true; rm -f "$$log"' EXIT; failed=0; \
	go test -count 1 -v -timeout 60m ./test/e2e -skip '$(SECOND_HALF)|$(ALONE)|$(LONG)' || failed=1; \
	wait $$second || failed=1; cat "$$log"; exit $$failed
	@echo '== what endpoints and controllers do to proxies, on real nodes and alone'
	@go test -count 1 -v -timeout 30m ./test/e2e -run '^($(ALONE))$$'
	@echo '== rollouts on real nodes behind an emulated load balancer of AWS'
	@go test -count 1 -v -timeout 30m ./test/balancer -run 'TestCases/^($(CASES))$$'
else
	@echo 'left out, since they need root or Debian: $(LEFT_OUT) and every test with real nodes'
endif

# Its control plane is built for 5 minutes first.
.PHONY: oldest
oldest: ## Run the tests of the API, the controllers and the installed chart on the oldest API server that is supported
	@OLDEST=1 go test -p 1 -count 1 -timeout 45m ./test/api/... ./test/install ./test/targets

.PHONY: conformance
conformance: ## Run the Gateway API's own tests on a real node, also those of extended features, and write their report to docs/conformance (root)
	@go test -count 1 -v -timeout 30m ./test/conformance -all

.PHONY: peers
peers: ## Hold the proxy against h2spec, testssl.sh, h2load, wrk and curl, which are unpacked where they are not installed (Debian)
	@go test -count 1 -v -timeout 30m ./test/peers

# What is found to break a test is written to testdata/fuzz beside it. Commit that: from then
# on the unit tests play it, too.
FUZZTIME ?= 1m
FUZZ ?= Fuzz
.PHONY: fuzz
fuzz: ## Look for inputs that break what reads them, for a minute each (FUZZTIME=1m; FUZZ=FuzzRecord for those of which the name begins so)
	@grep -rhoH --include='*_test.go' '^func $(FUZZ)[A-Za-z]*' api internal | sort | { failed=0; while IFS=: read -r file name; do \
		echo "== $${name#func } in $${file%/*}"; \
		go test "./$${file%/*}" -run '^$$' -fuzz "^$${name#func }\$$" -fuzztime $(FUZZTIME) </dev/null || failed=1; \
	done; exit $$failed; }

# Without it the first packages to be tested would build and install in silence.
.PHONY: prepare
prepare:
	@echo '== what clusters and tests need'
	@go run ./test/lab prepare

.PHONY: cluster
cluster: ## Start a local cluster, or find it running (NODES=3 SIMULATED_NODES=0)
	@$(COMPILING)
	@go run ./test/lab up --nodes $(NODES) --simulated $(or $(SIMULATED_NODES),0)
	@echo 'next: make deploy installs the controller, make cluster-down takes the cluster down'

.PHONY: cluster-down
cluster-down: ## Take the local cluster down, whatever state it is in
	@go run ./test/lab down

# Whether KUBECONFIG names the local cluster, also where it does not run.
LOCAL = $(if $(KUBECONFIG),$(filter $(realpath .cluster)/kubeconfig,$(realpath $(dir $(KUBECONFIG)))/$(notdir $(KUBECONFIG))),local)
.PHONY: deploy
deploy: ## Install the controller into the cluster that KUBECONFIG names (IMAGE=...), or into the local one with its image
	@IMAGE='$(IMAGE)' go run $(if $(LOCAL),./test/lab deploy,./tools/deploy)

.PHONY: image
image: ## Write dist/ingress-daemonset-controller.tar, an image archive (OCI and docker) with the commands that run in a cluster (IMAGE=... names it)
	@go run ./test/lab image dist '$(IMAGE)'

.PHONY: push
push: $(if $(IMAGE),image) ## Push the image or the chart to a registry (IMAGE=registry.example.com/ingress-daemonset-controller:v1, CHART=oci://registry.example.com/charts)
	@go run ./tools/push -image '$(IMAGE)' -chart '$(CHART)'

.PHONY: release
release: ## Write all files of the release that CHANGELOG.md begins with to dist/: image, manifests, chart, kubectl ids, bills of materials
	@go run ./tools/release

.PHONY: lint
lint: check ## Run the checks and golangci-lint
	@$$(GOWORK=off go tool -n -modfile=tools/lint/go.mod golangci-lint) run ./... ./test/... ./tools/...

.PHONY: generate
generate: ## Write what is derived from api/v1alpha1
	@GOWORK=off go run -C tools/generate .

.PHONY: docs
docs: generate ## Write the reference, and play and draw the session that the README shows (root)
	@go run ./test/record

.PHONY: bench
bench: ## Measure on simulated nodes beside native DaemonSets, and the proxy beside nginx (CASE=proxy-request is one case); fails where a bar is missed
	@go run ./test/bench $(if $(CASE),-case '$(CASE)')
