// Command entrypoint is the entrypoint of the nginx image, and does what that of the nginx project
// does: it fills the container's environment into /etc/nginx/templates/*.template, writes the result
// to /etc/nginx/conf.d and becomes the command that it was given.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

const (
	templates = "/etc/nginx/templates"
	output    = "/etc/nginx/conf.d"
	suffix    = ".template"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "entrypoint:", err)
		os.Exit(1)
	}
}

func run(command []string) error {
	files, err := filepath.Glob(templates + "/*" + suffix)
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.Base(file), suffix)
		if err := os.WriteFile(filepath.Join(output, name), fill(text), 0o644); err != nil {
			return err
		}
	}
	if len(command) == 0 {
		return fmt.Errorf("no command")
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	return syscall.Exec(program, command, os.Environ())
}

var variable = regexp.MustCompile(`\$\{?\w+\}?`)

// fill replaces the variables that the environment has. Others are nginx's own.
func fill(text []byte) []byte {
	return variable.ReplaceAllFunc(text, func(match []byte) []byte {
		if value, ok := os.LookupEnv(strings.Trim(string(match), "${}")); ok {
			return []byte(value)
		}
		return match
	})
}
