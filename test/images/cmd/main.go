// The images command writes container images to archives:
//
//	images proxy NAME REFERENCE OUT.tar       nginx, haproxy or caddy from this machine's Debian package
//	images commands BINDIR REFERENCE OUT.tar  the product's own programs
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mumoshu/ingress-daemonset-controller/test/images"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 4 {
		return errors.New("usage: images proxy nginx|haproxy|caddy REFERENCE OUT.tar\n       images commands BINDIR REFERENCE OUT.tar")
	}
	image, err := build(ctx, args[0], args[1])
	if err != nil {
		return err
	}
	return images.Write(args[3], args[2], image)
}

func build(ctx context.Context, kind, from string) (v1.Image, error) {
	switch kind {
	case "proxy":
		return images.Proxy(ctx, from)
	case "commands":
		return images.Commands(from)
	default:
		return nil, fmt.Errorf("unknown kind of image %q: must be proxy or commands", kind)
	}
}
