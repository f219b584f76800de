package controller

import (
	"context"
	"errors"
	"flag"
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
	asController, err := client.New(own, client.Options{Scheme: api.Scheme()})
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
	events, err := audit.Read(theCluster.AuditLog(), audit.Account(account))
	if err != nil {
		return err
	}
	return audit.Check("the controller", events, flag.Lookup("test.run").Value.String() == "", func() ([]rbacv1.PolicyRule, error) {
		cluster, leader := &rbacv1.ClusterRole{}, &rbacv1.Role{}
		err := errors.Join(api.Get(ctx, types.NamespacedName{Name: accountName}, cluster),
			api.Get(ctx, types.NamespacedName{Namespace: systemNamespace, Name: accountName + "-leader"}, leader))
		return append(cluster.Rules, leader.Rules...), err
	}, unseen...)
}
