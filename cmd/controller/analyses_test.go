package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnalysesAreChecked says which flag to change before anything is asked of the cluster.
func TestAnalysesAreChecked(t *testing.T) {
	file := func(content string) string {
		name := filepath.Join(t.TempDir(), "providers.yaml")
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for name, c := range map[string]struct {
		flags analyses
		says  string
	}{
		"none":           {analyses{}, ""},
		"hosts":          {analyses{hosts: list{"prometheus.monitoring:9090", "*.example.com", "192.0.2.0/24"}}, ""},
		"no host":        {analyses{hosts: list{"http://prometheus"}}, "--analysis-hosts: "},
		"providers":      {analyses{providers: file("providers: [{name: mimir, address: 'https://mimir.example.com'}]")}, ""},
		"no file":        {analyses{providers: filepath.Join(t.TempDir(), "none")}, "--analysis-providers: "},
		"unknown field":  {analyses{providers: file("providers: [{name: mimir, addresses: 'https://mimir.example.com'}]")}, "--analysis-providers: "},
		"without a name": {analyses{providers: file("providers: [{address: 'https://mimir.example.com'}]")}, "it has no name"},
	} {
		err := c.flags.check()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
