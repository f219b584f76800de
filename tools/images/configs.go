package images

import (
	"embed"
	"fmt"
	"path"
)

//go:embed configs
var configs embed.FS

// Network is where a proxy's pods listen.
type Network string

const (
	HostNetwork Network = "host-network" // port 80 of the node, shared by its pods through SO_REUSEPORT; /healthz on 10254
	PodNetwork  Network = "pod-network"  // port 8080 of the pod; /healthz on 10254
)

// ConfigFile is a proxy's configuration and where its image expects it.
type ConfigFile struct {
	Path    string // of the file in the container
	Content string
}

var configPaths = map[string]string{
	"nginx":   "/etc/nginx/templates/default.conf.template",
	"haproxy": "/usr/local/etc/haproxy/haproxy.cfg",
	"caddy":   "/etc/caddy/Caddyfile",
}

// Config returns a configuration that answers every request with 200 and "ok\n". The
// answer's headers X-Pod, X-Node and X-Version have the values of the container's
// environment variables POD_NAME, NODE_NAME and VERSION.
func Config(proxy string, network Network) (ConfigFile, error) {
	file := configPaths[proxy]
	content, err := configs.ReadFile(path.Join("configs", string(network), path.Base(file)))
	if err != nil {
		return ConfigFile{}, fmt.Errorf("no configuration for proxy %q on network %q", proxy, network)
	}
	return ConfigFile{file, string(content)}, nil
}
