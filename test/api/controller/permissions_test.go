package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mumoshu/ingress-daemonset-controller/test/audit"
)

// unseen is granted for clusters that are set up unlike this one: only the
// admission plugin OwnerReferencesPermissionEnforcement asks for it.
var unseen = []string{"update ingressdaemonsets.mumoshu.github.io/ingressdaemonsets/finalizers"}

// checkPermissions compares what config/rbac grants to the controller with what
// it did in all tests: nothing is missing, and nothing is too much.
func checkPermissions(ctx context.Context) error {
	cluster, leader := &rbacv1.ClusterRole{}, &rbacv1.Role{}
	if err := api.Get(ctx, types.NamespacedName{Name: accountName}, cluster); err != nil {
		return err
	}
	if err := api.Get(ctx, types.NamespacedName{Namespace: systemNamespace, Name: accountName + "-leader"}, leader); err != nil {
		return err
	}
	events, err := audit.Read(theCluster.AuditLog(), account)
	if err != nil {
		return err
	}
	if refused := audit.Refused(events); len(refused) > 0 {
		return fmt.Errorf("the controller may not:\n%s", strings.Join(refused, "\n"))
	}
	unused := slices.DeleteFunc(audit.Unused(append(cluster.Rules, leader.Rules...), events), func(p string) bool { return slices.Contains(unseen, p) })
	if len(unused) > 0 {
		return fmt.Errorf("the controller may, but never did:\n%s", strings.Join(unused, "\n"))
	}
	return nil
}
