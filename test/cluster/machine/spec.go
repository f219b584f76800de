// Package machine runs the machines of the local cluster: the host and the nodes.
//
// A machine is a set of Linux namespaces (network, processes, mounts, host
// name) whose first process, the program in ./init, runs the machine's
// services. All that belongs to a machine lives in those namespaces, so
// killing the first process ends every process, mount and interface of it, and
// nothing has to be undone. Where there is no root, a machine is the same
// first process without namespaces.
//
// This package is the view from outside; ./init is the view from inside.
package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// ClusterVariable is the environment variable that marks every process of a
// cluster; its value is the cluster's absolute directory. It is how a crashed
// cluster's processes are found.
const ClusterVariable = "INGRESS_DAEMONSET_CLUSTER"

// Spec is what a machine's first process reads when it starts.
type Spec struct {
	Name string `json:"name"`
	// Dir is the machine's own directory, absolute.
	Dir string `json:"dir"`
	// Cluster is the value of ClusterVariable.
	Cluster string `json:"cluster"`
	// Isolated machines have namespaces of their own.
	Isolated bool `json:"isolated"`
	// Mounts are made in order in the machine's mount namespace.
	Mounts []Mount `json:"mounts,omitempty"`
	// ControlGroups are the machine's own roots of the cgroup hierarchies.
	ControlGroups []ControlGroup `json:"controlGroups,omitempty"`
	// Sysctls are set inside the machine, for example
	// "net/ipv4/ip_forward": "1".
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// ForwardTo is the address inside the machine that connections to the
	// listener of Boot go to.
	ForwardTo string    `json:"forwardTo,omitempty"`
	Services  []Service `json:"services"`
}

// Mount is a tmpfs, or a bind of a file or folder when Source is set.
type Mount struct {
	Source string `json:"source,omitempty"`
	Target string `json:"target"`
}

// ControlGroup is a folder in a cgroup hierarchy that is all that the machine
// sees of that hierarchy.
type ControlGroup struct {
	Folder string `json:"folder"`
	// Mount is where the hierarchy is mounted.
	Mount string `json:"mount"`
	// Type and Options are those of the mount: cgroup2, or cgroup and the
	// names of its controllers.
	Type    string `json:"type"`
	Options string `json:"options,omitempty"`
}

// Service is a long-running process. It is started again a second after it
// exits, unless it was stopped.
type Service struct {
	Name string   `json:"name"`
	Path string   `json:"path"`
	Args []string `json:"args,omitempty"`
	// Env is added to the environment of the machine's first process.
	Env []string `json:"env,omitempty"`
	// Log is the file that gets its output.
	Log string `json:"log"`
	// After is what must be there before the service is started: a file
	// (an absolute path) or a TCP server (an address and port).
	After string `json:"after,omitempty"`
}

// ServiceStatus is what the machine's first process knows about a service.
type ServiceStatus struct {
	Name string `json:"name"`
	// PID is the process as the machine sees it, 0 when it does not run.
	PID      int `json:"pid"`
	Restarts int `json:"restarts"`
}

// ReadSpec reads the spec of the machine in dir.
func ReadSpec(dir string) (*Spec, error) {
	data, err := os.ReadFile(filepath.Join(dir, "spec.json"))
	if err != nil {
		return nil, err
	}
	spec := &Spec{}
	if err := json.Unmarshal(data, spec); err != nil {
		return nil, fmt.Errorf("spec of the machine in %s: %w", dir, err)
	}
	return spec, nil
}

func (s *Spec) write() error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.Dir, "spec.json"), data, 0o644)
}
