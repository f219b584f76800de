//go:build linux

// Command nginxingress is a fake of the ingress controller of the project's first example:
// started with any flags, as www-data, it becomes an nginx that serves ports 80, 443
// (without TLS) and, for probes, 10254.
package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	nginx  = "/usr/sbin/nginx"
	config = "/tmp/nginx.conf"
)

const configText = `
worker_processes 1;
daemon off;
pid /run/nginx.pid;
error_log stderr notice;
worker_shutdown_timeout 240s;

events {
    worker_connections 4096;
}

http {
    access_log off;
    keepalive_timeout 75s;
    server {
        listen 80 reuseport;
        listen 443 reuseport;
        location / {
            default_type text/plain;
            add_header X-Pod "POD" always;
            add_header X-Node "NODE" always;
            add_header X-Version "VERSION" always;
            return 200 "ok\n";
        }
    }
    server {
        listen 10254 reuseport;
        location = /healthz {
            return 200 "ok\n";
        }
    }
}
`

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "nginx-ingress-controller:", err)
		os.Exit(1)
	}
}

func run() error {
	hostname, err := os.Hostname()
	if err != nil {
		return err
	}
	text := strings.NewReplacer(
		"POD", cmp.Or(os.Getenv("POD_NAME"), hostname),
		"NODE", cmp.Or(os.Getenv("NODE_NAME"), hostname),
		"VERSION", os.Getenv("VERSION"),
	).Replace(configText)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return err
	}
	runtime.LockOSThread() // capabilities are a thread's
	if err := passOnLowPorts(); err != nil {
		return fmt.Errorf("capability to bind low ports: %w", err)
	}
	return syscall.Exec(nginx, []string{nginx, "-c", config}, os.Environ())
}

// passOnLowPorts lets nginx, which has no file capabilities, bind ports below 1024 if
// this program may.
func passOnLowPorts() error {
	const bit = 1 << unix.CAP_NET_BIND_SERVICE
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return err
	}
	if sets[0].Permitted&bit == 0 {
		return nil
	}
	sets[0].Inheritable |= bit
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_NET_BIND_SERVICE, 0, 0)
}
