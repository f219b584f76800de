module github.com/mumoshu/ingress-daemonset-controller/tools/health

go 1.26.0

require (
	github.com/fluxcd/cli-utils v1.3.0
	github.com/google/cel-go v0.29.2
	github.com/google/go-cmp v0.7.0
	github.com/yuin/gopher-lua v1.1.2
	k8s.io/apimachinery v0.37.2
	sigs.k8s.io/yaml v1.6.0
)
