package aws

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/api"
)

// AWS says that deregistering what is not registered succeeds, and lists InvalidTarget among
// the errors of the call. Either can be had.
func TestRefusedDeregistrations(t *testing.T) {
	f := serve(t, assumed)
	f.must(f.register("pods", pod, other))
	var invalid *types.InvalidTargetException
	f.must(f.deregister("pods", local(1, 99)))
	f.must(f.admin.SetFaults(t.Context(), api.Fault{Kind: api.RefuseUnregistered, Action: "DeregisterTargets"}))
	err := f.deregister("pods", pod, local(1, 99))
	f.expect("one of two is not registered: InvalidTarget", errors.As(err, &invalid), true)
	f.refused(err, "InvalidTarget", "not registered with the target group: '"+local(1, 99)+"'")
	f.expect("the other of that call", strings.HasPrefix(f.state("pods", pod), "initial"), true)
	f.must(f.deregister("pods", pod))
	f.refused(f.deregister("pods", pod), "InvalidTarget", pod) // it drains, and is not registered any more

	f.must(f.admin.SetFaults(t.Context(), api.Fault{Kind: api.Refuse, Code: "InvalidTarget", Action: "DeregisterTargets", Target: other}))
	f.refused(f.deregister("pods", local(1, 98), other), "InvalidTarget", "")
	f.expect("the one that is refused", strings.HasPrefix(f.state("pods", other), "initial"), true)
	f.must(f.deregister("pods", local(1, 98)))
	calls, err := f.admin.Calls(t.Context(), 0)
	f.must(err)
	refused := calls[len(calls)-3]
	f.expect("the refused one in the log", words(refused.Action, refused.Outcome, refused.CarriedOut), "DeregisterTargets InvalidTarget false")
	f.must(f.admin.SetFaults(t.Context()))
	f.must(f.deregister("pods", other))
	if err := f.admin.SetFaults(t.Context(), api.Fault{Kind: api.Refuse, Action: "*"}); err == nil {
		t.Error("a refusal without a code was taken")
	}
}
