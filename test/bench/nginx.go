package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	templates "text/template"
)

// nginx is that of Debian's package.
const nginx = "/usr/sbin/nginx"

//go:embed nginx.conf
var nginxConf string

var nginxTemplate = templates.Must(templates.New("nginx.conf").Parse(nginxConf))

// startNginx starts it with as many workers as the proxy has processors.
func (p *proxies) startNginx(ctx context.Context) (*running, ports, error) {
	if _, err := os.Stat(nginx); errors.Is(err, fs.ErrNotExist) {
		return nil, ports{}, fmt.Errorf("%s is missing, beside which the proxy is measured: apt-get install nginx", nginx)
	}
	at, err := freePorts()
	if err != nil {
		return nil, at, err
	}
	plain, secured := at.addresses()
	var conf bytes.Buffer
	err = nginxTemplate.Execute(&conf, map[string]any{
		"Root": os.Geteuid() == 0, "Workers": runtime.GOMAXPROCS(0), "Dir": p.dir, "Small": p.small, "Large": p.large,
		"Plain": plain, "TLS": secured, "Host": exampleHost,
	})
	if err != nil {
		return nil, at, err
	}
	file := filepath.Join(p.dir, "nginx.conf")
	for name, content := range map[string][]byte{file: conf.Bytes(), filepath.Join(p.dir, "tls.crt"): p.certificate.Chain, filepath.Join(p.dir, "tls.key"): p.certificate.Key} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return nil, at, err
		}
	}
	r, err := p.start("nginx", exec.CommandContext(ctx, nginx, "-e", "stderr", "-c", file))
	if err != nil {
		return nil, at, err
	}
	return r, at, r.awaitPort(ctx, plain)
}
