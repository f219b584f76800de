package rollout

import "slices"

// ofTheSystem are ports of nodes on which Kubernetes itself listens: etcd's, the API
// server's, kube-proxy's, the kubelet's, the controller managers' and the scheduler's.
var ofTheSystem = []int32{2379, 2380, 2381, 6443, 10248, 10249, 10250, 10255, 10256, 10257, 10258, 10259}

// OfTheSystem reports whether Kubernetes itself listens on a port of nodes.
func OfTheSystem(port int32) bool { return slices.Contains(ofTheSystem, port) }
