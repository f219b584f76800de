package api

import (
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// base is accepted without a warning.
const base = `
apiVersion: ingressdaemonsets.mumoshu.github.io/v1alpha1
kind: IngressDaemonSet
metadata:
  name: proxy
spec:
  podsPerNode: 2
  healthCheckNodePorts: [10080]
  updateStrategy:
    rollingUpdate:
      maxUnavailableNodes: 1
  template:
    metadata:
      labels:
        app: proxy
    spec:
      containers:
      - name: proxy
        image: proxy
`

// changed is base with merge patches.
func changed(patches ...string) *unstructured.Unstructured { return patched(base, patches...) }

// patched is an object with merge patches, all written in YAML.
func patched(text string, patches ...string) *unstructured.Unstructured {
	merged := toJSON(text)
	for _, patch := range patches {
		var err error
		if merged, err = jsonpatch.MergePatch(merged, toJSON(patch)); err != nil {
			panic(fmt.Sprintf("%s: %v", patch, err))
		}
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(merged); err != nil {
		panic(err)
	}
	return object
}

func toJSON(text string) []byte {
	json, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		panic(fmt.Sprintf("%s: %v", text, err))
	}
	return json
}

// Patches of the parts that the rules are about.

func spec(fields string) string { return `{spec: {` + fields + `}}` }

func rolling(fields string) string {
	return spec(`updateStrategy: {rollingUpdate: {` + fields + `}}`)
}

// degraded replaces the base's strategy by one that detaches no node.
func degraded(fields string) string {
	return rolling(`maxUnavailableNodes: null, ` + fields)
}

func template(fields string) string { return spec(`template: {` + fields + `}`) }

func pod(fields string) string { return template(`spec: {` + fields + `}`) }

func ports(list string) string {
	return pod(`containers: [{name: proxy, image: proxy, ports: [` + list + `]}]`)
}
