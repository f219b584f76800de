package main

import (
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const krewFile = "ids.yaml"

// krewManifest is a plugin as krew's index describes it, apiVersion
// krew.googlecontainertools.github.com/v1alpha2:
// https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/.
type krewManifest struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        krewMetadata `json:"metadata"`
	Spec            krewSpec     `json:"spec"`
}

type krewMetadata struct {
	Name string `json:"name"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector metav1.LabelSelector `json:"selector"`
	URI      string               `json:"uri"`
	SHA256   string               `json:"sha256"`
	Bin      string               `json:"bin"`
}

func (r *release) writeKrew() error {
	manifest := krewManifest{
		TypeMeta: metav1.TypeMeta{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin"},
		Metadata: krewMetadata{"ids"},
		Spec: krewSpec{
			Version: r.version, Homepage: homepage,
			ShortDescription: "See and steer rollouts of IngressDaemonSets",
			Description: "Shows a rollout of ingress proxies node by node, plans one without touching\n" +
				"anything, says why a node waits, takes nodes out of the load balancer, and\n" +
				"pauses, promotes and undoes rollouts.\n",
		},
	}
	for _, p := range r.users {
		sum, err := r.sum(r.archiveOf(p))
		if err != nil {
			return err
		}
		manifest.Spec.Platforms = append(manifest.Spec.Platforms, krewPlatform{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"os": p.os, "arch": p.arch}},
			URI:      fmt.Sprintf("%s/%s/%s", downloads, r.version, r.archiveOf(p)),
			SHA256:   sum,
			Bin:      plugin + extension(p),
		})
	}
	content, err := yaml.Marshal(manifest)
	if err != nil {
		return err
	}
	return os.WriteFile(r.path(krewFile), content, 0o644)
}
