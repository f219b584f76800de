package kubectl

import (
	"context"
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// fieldManager owns what the commands change.
const fieldManager = "kubectl-ids"

// operator is who calls, and where.
type operator struct {
	streams genericiooptions.IOStreams
	flags   *genericclioptions.ConfigFlags
	version string
}

// connect gives a client and the namespace that the flags name.
func (o *operator) connect() (client.WithWatch, string, error) {
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return nil, "", err
	}
	config.WarningHandlerWithContext = rest.NoWarnings{}
	namespace, _, err := o.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, "", err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, discoveryv1.AddToScheme, gatewayv1.Install} {
		if err := add(scheme); err != nil {
			return nil, "", err
		}
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	return c, namespace, err
}

func (o *operator) get(ctx context.Context, name string) (client.WithWatch, *v1alpha1.IngressDaemonSet, error) {
	c, namespace, err := o.connect()
	if err != nil {
		return nil, nil, err
	}
	set := &v1alpha1.IngressDaemonSet{}
	return c, set, c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, set)
}

// edit changes an IngressDaemonSet, and says what it did.
type edit func(client.Client, *v1alpha1.IngressDaemonSet) (done string, err error)

// change patches the IngressDaemonSet with what edit makes of it.
func (o *operator) change(ctx context.Context, name string, edit edit) error {
	return o.write(ctx, name, edit.patch)
}

// patch is the difference that it makes, of this version of the object alone.
func (e edit) patch(api client.Client, set *v1alpha1.IngressDaemonSet) (client.Patch, string, error) {
	before := set.DeepCopy()
	done, err := e(api, set)
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), done, err
}

// write patches the IngressDaemonSet, again where only the status or the metadata changed meanwhile, up to
// four times. A spec that somebody else changed is not what the caller saw: an undo after theirs would take
// that back.
func (o *operator) write(ctx context.Context, name string, decide func(client.Client, *v1alpha1.IngressDaemonSet) (client.Patch, string, error)) error {
	seen := int64(0)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		c, set, err := o.get(ctx, name)
		if err != nil {
			return err
		}
		if seen != 0 && set.Generation != seen {
			return fmt.Errorf("somebody else changed the spec of ingressdaemonset %q at the same time, and nothing was done here: see what it is now, and try again", name)
		}
		seen = set.Generation
		patch, done, err := decide(c, set)
		if err != nil {
			return err
		}
		err = c.Patch(ctx, set, patch, client.FieldOwner(fieldManager))
		if err == nil {
			fmt.Fprintf(o.streams.Out, "ingressdaemonset.%s/%s %s\n", v1alpha1.GroupVersion.Group, name, done)
		}
		return err
	})
}

// connectTo gives a client and the namespace that the flags name, empty for all.
func (o *operator) connectTo(everywhere bool) (client.WithWatch, string, error) {
	api, namespace, err := o.connect()
	if everywhere {
		namespace = ""
	}
	return api, namespace, err
}
