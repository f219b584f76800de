package controller

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/test/audit"
)

// unseen is granted for clusters that are set up unlike this one: only the
// admission plugin OwnerReferencesPermissionEnforcement asks for it.
var unseen = []string{"update ingressdaemonsets.mumoshu.github.io/ingressdaemonsets/finalizers"}

// TestBind shows that the controller may give the health checkers' role to an
// account, and no other role.
func TestBind(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	own, err := accountConfig(t.Context())
	f.must(err)
	asController, err := client.New(own, client.Options{Scheme: scheme})
	f.must(err)
	for role, allowed := range map[string]bool{"ingress-daemonset-healthchecker": true, "cluster-admin": false, "view": false} {
		err := asController.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}, client.DryRunAll)
		if allowed && err != nil || !allowed && !apierrors.IsForbidden(err) {
			t.Errorf("binding %s: %v", role, err)
		}
	}
}

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
	events, err := audit.Read(theCluster.AuditLog(), audit.Account(account))
	if err != nil {
		return err
	}
	if refused := audit.Refused(events); len(refused) > 0 {
		return fmt.Errorf("the controller may not:\n%s", strings.Join(refused, "\n"))
	}
	if only := flag.Lookup("test.run").Value.String(); only != "" {
		return nil // It takes all tests to use all permissions.
	}
	unused := slices.DeleteFunc(audit.Unused(append(cluster.Rules, leader.Rules...), events), func(p string) bool { return slices.Contains(unseen, p) })
	if len(unused) > 0 {
		return fmt.Errorf("the controller may, but never did:\n%s", strings.Join(unused, "\n"))
	}
	return nil
}
