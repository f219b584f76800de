package install

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUninstall ends although there are objects that wait for a controller, and leaves them as they
// are, for an installation by the same name, or by another that is told to take them over.
func TestUninstall(t *testing.T) {
	empty(t)
	mustHelm(t, documented(t, "install", false, "--set", "loadBalancers.enabled=true")...)
	set, attachment := create(t, sets, proxies), create(t, targetGroups, targets)
	leftAlone := func() {
		t.Helper()
		unharmed(t, sets, set)
		unharmed(t, targetGroups, attachment)
		ended(t)
	}
	mustHelm(t, documented(t, "uninstall", false, "--wait", "--timeout", "60s")...)
	leftAlone()
	mustHelm(t, documented(t, "install", false)...)
	mustHelm(t, documented(t, "uninstall", false, "--wait", "--timeout", "60s")...)
	leftAlone()
	other := documented(t, "install", false)
	other[1] = another
	if _, err := tryHelm(t, other...); err == nil || !strings.Contains(err.Error(), "cannot be imported into the current release") {
		t.Errorf("the CRDs of one release are another's: %v", err)
	}
	mustHelm(t, append(other, "--take-ownership")...)
	unharmed(t, targetGroups, attachment)
}

// TestUninstallWithCRDs: with crds.keep false the CRDs go, and what waits for the controller holds them
// up, but not helm.
func TestUninstallWithCRDs(t *testing.T) {
	empty(t)
	mustHelm(t, documented(t, "install", false, "--set", "crds.keep=false")...)
	attachment := create(t, targetGroups, targets)
	mustHelm(t, documented(t, "uninstall", false)...)
	ended(t)
	read := func() error {
		now, err := api.Resource(targetGroups).Namespace(attachment.GetNamespace()).Get(t.Context(), attachment.GetName(), metav1.GetOptions{})
		if err == nil && now.GetDeletionTimestamp() == nil {
			return errors.New("the TargetGroupAttachment is not deleted")
		}
		return err
	}
	eventually(t, read)
	letGo(t, targetGroups, attachment)
	eventually(t, func() error {
		_, err := api.Resource(crds).Get(t.Context(), targetGroups.GroupResource().String(), metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the CRD is there still: %v", err)
		}
		return nil
	})
}

// TestBackWithoutKeeping: with crds.keep false the CRDs go, too, where the release before comes back,
// which did not have them.
func TestBackWithoutKeeping(t *testing.T) {
	empty(t)
	mustHelm(t, "install", product, before, "--namespace", namespace, "--create-namespace")
	mustHelm(t, documented(t, "upgrade", true, "--set", "crds.keep=false")...)
	mustHelm(t, documented(t, "rollback", false)...)
	eventually(t, func() error {
		left, err := api.Resource(crds).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d CRDs are left", len(left.Items))
		}
		return err
	})
}

// ended fails where the controller is installed.
func ended(t *testing.T) {
	t.Helper()
	_, err := api.Resource(deployments).Namespace(namespace).Get(t.Context(), product, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the controller is there still: %v", err)
	}
}
