package issuer

import (
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// addressOf is where a Service leads from inside the cluster, or why nowhere.
func addressOf(s *corev1.Service) (address, problem string) {
	switch {
	case s == nil:
		return "", "there is no such Service"
	case s.Spec.ClusterIP == corev1.ClusterIPNone:
		return "", "it is headless: proxies need one address that stays"
	case s.Spec.ClusterIP == "":
		return "", "it has no cluster IP"
	case len(s.Spec.Ports) != 1:
		return "", fmt.Sprintf("it has %d ports, and must have one", len(s.Spec.Ports))
	}
	// Where there are two cluster IPs, this is the first of them.
	return net.JoinHostPort(s.Spec.ClusterIP, strconv.Itoa(int(s.Spec.Ports[0].Port))), ""
}
