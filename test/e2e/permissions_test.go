package e2e

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/audit"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
)

const controllerAccount = "system:serviceaccount:ingress-daemonset-system:ingress-daemonset-controller"

// checkPermissions compares what config/rbac grants with what the API server's
// log says of all tests: neither the controller nor a health checker was refused
// anything, and the health checkers' role grants nothing that none of them used.
// What the controller does not use only test/api/controller can tell, which does
// everything.
func checkPermissions(ctx context.Context) error {
	controller, err := audit.Read(theHarness.AuditLog(), audit.Account(controllerAccount))
	if err != nil {
		return err
	}
	if err := audit.Check("the controller", controller, false, nil); err != nil {
		return err
	}
	for _, once := range audit.RefusedOnce(controller) {
		fmt.Println("refused for a moment:", once)
	}
	checkers, err := checkerRequests()
	if err != nil {
		return err
	}
	return audit.Check("a health checker", checkers, flag.Lookup("test.run").Value.String() == "", func() ([]rbacv1.PolicyRule, error) {
		role := &rbacv1.ClusterRole{}
		err := theHarness.Get(ctx, types.NamespacedName{Name: "ingress-daemonset-healthchecker"}, role)
		return role.Rules, err
	})
}

// checkerRequests are those of the accounts in the tests' namespaces until these
// are deleted: their role goes before they do.
func checkerRequests() ([]audit.Event, error) {
	gone := map[string]time.Time{}
	all, err := audit.Read(theHarness.AuditLog(), func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if _, before := gone[e.ObjectRef.Name]; e.ObjectRef.Resource == "namespaces" && e.Verb == "delete" && !before {
			gone[e.ObjectRef.Name] = e.Received
		}
	}
	return slices.DeleteFunc(all, func(e audit.Event) bool {
		at, deleted := gone[e.ObjectRef.Namespace]
		return !strings.HasPrefix(e.User.Username, "system:serviceaccount:e2e-") || deleted && !e.Received.Before(at)
	}), nil
}
