//go:build !linux

package main

import (
	"errors"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
)

func isolate(*machine.Spec) error { return errors.ErrUnsupported }
