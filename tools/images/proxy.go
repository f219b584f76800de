package images

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const packagePath = "github.com/mumoshu/ingress-daemonset-controller/tools/images/"

//go:embed nginx.conf
var nginxMain string

type proxy struct {
	program string // of its Debian package
	config  v1.Config
	add     func(ctx context.Context, t tree, buildDir string) error
}

// The proxies take their configuration from where the images of their own projects do,
// and stop gracefully at the signal that those name.
var proxies = map[string]proxy{
	"nginx": {
		program: "/usr/sbin/nginx",
		config: v1.Config{
			Entrypoint: []string{"/docker-entrypoint"},
			Cmd:        []string{"nginx", "-g", "daemon off;"},
			StopSignal: "SIGQUIT",
		},
		add: addNginx,
	},
	"haproxy": {
		program: "/usr/sbin/haproxy",
		config: v1.Config{
			Cmd:        []string{"haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"},
			StopSignal: "SIGUSR1",
		},
		add: addHAProxy,
	},
	"caddy": {
		program: "/usr/bin/caddy",
		config: v1.Config{
			Cmd:        []string{"caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"},
			Env:        []string{"XDG_CONFIG_HOME=/config", "XDG_DATA_HOME=/data"},
			StopSignal: "SIGTERM",
		},
		add: addCaddy,
	},
}

// Proxy builds the image of "nginx", "haproxy" or "caddy" from the Debian package of
// that name, which must be installed. It needs the go command and this module around it.
func Proxy(ctx context.Context, name string) (v1.Image, error) {
	p, ok := proxies[name]
	if !ok {
		return nil, fmt.Errorf("proxy image %q: must be one of %s", name, strings.Join(slices.Sorted(maps.Keys(proxies)), ", "))
	}
	image, err := p.image(ctx)
	if err != nil {
		return nil, fmt.Errorf("proxy image %s: %w", name, err)
	}
	return image, nil
}

func (p proxy) image(ctx context.Context) (v1.Image, error) {
	buildDir, err := os.MkdirTemp("", "images-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(buildDir)
	t := baseTree()
	if err := t.addDynamic(ctx, p.program); err != nil {
		return nil, err
	}
	if err := p.add(ctx, t, buildDir); err != nil {
		return nil, err
	}
	config := p.config
	config.Env = append([]string{searchPath}, config.Env...)
	return build(config, runtime.GOARCH, t)
}

func addNginx(ctx context.Context, t tree, buildDir string) error {
	t.text("/etc/nginx/nginx.conf", nginxMain)
	t.program("/etc/nginx/mime.types", "/etc/nginx/mime.types")
	t.folder("/etc/nginx/templates", 0o755)
	t.folder("/etc/nginx/conf.d", anyoneWrites)
	t.folder("/var/lib/nginx", anyoneWrites)
	t.folder("/var/log/nginx", anyoneWrites)
	t.link("/var/log/nginx/access.log", "/dev/stdout")
	t.link("/var/log/nginx/error.log", "/dev/stderr")

	for path, pkg := range map[string]string{
		"/docker-entrypoint":        "entrypoint",
		"/nginx-ingress-controller": "nginxingress",
		"/wait-shutdown":            "waitshutdown",
	} {
		if err := t.addStatic(ctx, path, packagePath+pkg, buildDir); err != nil {
			return err
		}
	}
	controller := t["/nginx-ingress-controller"]
	controller.xattrs = map[string]string{fileCapability: mayBindLowPorts}
	t["/nginx-ingress-controller"] = controller
	return nil
}

func addHAProxy(_ context.Context, t tree, _ string) error {
	t.folder("/usr/local/etc/haproxy", 0o755)
	t.folder("/var/lib/haproxy", anyoneWrites)
	return nil
}

func addCaddy(_ context.Context, t tree, _ string) error {
	t.folder("/etc/caddy", 0o755)
	t.folder("/config", anyoneWrites)
	t.folder("/data", anyoneWrites)
	return nil
}
