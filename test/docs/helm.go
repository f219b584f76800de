package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// chart is the chart's folder in the project, as the guide names it.
const chart = "charts/ingress-daemonset-controller"

// HelmArguments are the arguments of the guide's command of helm, for the project whose folder root is. Of its
// two upgrades that one is meant in which the CRDs move into the release, or the other.
func HelmArguments(root, verb string, moves bool) ([]string, error) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "guides", "upgrade-and-uninstall.md"))
	if err != nil {
		return nil, err
	}
	commands := Commands(string(page))
	at := slices.IndexFunc(commands, func(c string) bool {
		return strings.HasPrefix(c, "helm "+verb+" ") && strings.Contains(c, "--take-ownership") == moves
	})
	if at < 0 {
		return nil, fmt.Errorf("the guide has no such command: helm %s, with --take-ownership: %v", verb, moves)
	}
	return strings.Fields(strings.ReplaceAll(commands[at], chart, filepath.Join(root, chart)))[1:], nil
}
