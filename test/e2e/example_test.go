package e2e

import "testing"

// TestExample runs the example of the specification as it stands, graces
// included; the images that it names are fakes of this project. Its two pods a
// node declare the same host ports, of which the kubelet would reject the second.
func TestExample(t *testing.T) {
	scenario{
		example: "ingressdaemonset.yaml", verbatim: true, account: "nginx-ingress-serviceaccount",
		told: hostTold, untold: hostUntold, detacher: true,
	}.run(t)
}
