package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

const (
	// nextAuthority signs nothing but the certificate nextServing, which the API server
	// serves with after UseNextCA.
	nextAuthority = "next-ca"
	serving       = "kube-apiserver"
	nextServing   = "next-kube-apiserver"
	// publishedAuthorities are those that pods are told to trust.
	publishedAuthorities = "root-ca"
)

// issueServingCertificates makes the API server's certificate, and the one that it has
// after its authority was replaced.
func (c *Cluster) issueServingCertificates(ca *authority) error {
	next, err := newAuthority(ca.dir, nextAuthority)
	if err != nil {
		return err
	}
	hosts := []string{
		"127.0.0.1", "localhost", hostAddress, serviceAddress,
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}
	if err := errors.Join(ca.issue(serving, serving, nil, hosts...), next.issue(nextServing, serving, nil, hosts...)); err != nil {
		return err
	}
	return c.publish("ca")
}

// publish adds an authority to those that pods are told to trust.
func (c *Cluster) publish(name string) error {
	certificate, err := os.ReadFile(c.path("pki", name+".crt"))
	if err != nil {
		return err
	}
	file, err := os.OpenFile(c.path("pki", publishedAuthorities+".crt"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(certificate)
	return errors.Join(err, file.Close())
}

// PublishNextCA has pods trust another authority besides the present one, in all
// ConfigMaps kube-root-ca.crt, and returns its certificate. UseNextCA comes after it.
func (c *Cluster) PublishNextCA(ctx context.Context) (certificate []byte, err error) {
	if err := c.publish(nextAuthority); err != nil {
		return nil, err
	}
	const publisher = "kube-controller-manager"
	if err := errors.Join(c.host.StopService(ctx, publisher), c.host.StartService(ctx, publisher)); err != nil {
		return nil, err
	}
	return os.ReadFile(c.path("pki", nextAuthority+".crt"))
}

// UseNextCA starts the API server again, with a certificate of the next authority.
func (c *Cluster) UseNextCA(ctx context.Context) error {
	for _, end := range []string{".crt", ".key"} {
		if err := os.Rename(c.path("pki", nextServing+end), c.path("pki", serving+end)); err != nil {
			return err
		}
	}
	return c.RestartAPIServer(ctx)
}

// RestartAPIServer kills the API server, starts it again and returns when it is ready.
func (c *Cluster) RestartAPIServer(ctx context.Context) error {
	if err := c.StopAPIServer(ctx); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}

// RefuseTokens has the API server refuse the token of every service account, by another
// key, until the function that it returns is called.
func (c *Cluster) RefuseTokens(ctx context.Context) (accept func() error, err error) {
	if err := c.swapTokenKeys(); err != nil {
		return nil, err
	}
	back := func() error { return errors.Join(c.swapTokenKeys(), c.RestartAPIServer(ctx)) }
	return back, c.RestartAPIServer(ctx)
}

// swapTokenKeys exchanges the keys of tokens with others of the same kind.
func (c *Cluster) swapTokenKeys() error {
	for _, end := range []string{".crt", ".key"} {
		own, other, aside := c.path("pki", "service-account"+end), c.path("pki", "front-proxy"+end), c.path("pki", "aside"+end)
		if err := errors.Join(os.Rename(own, aside), os.Rename(other, own), os.Rename(aside, other)); err != nil {
			return err
		}
	}
	return nil
}

// FreezeStorage stops etcd where it is, as a disk that hangs does.
func (c *Cluster) FreezeStorage(ctx context.Context) error { return c.signalStorage(ctx, "STOP") }

// ThawStorage lets etcd go on.
func (c *Cluster) ThawStorage(ctx context.Context) error { return c.signalStorage(ctx, "CONT") }

func (c *Cluster) signalStorage(ctx context.Context, signal string) error {
	services, err := c.host.Services(ctx)
	if err != nil {
		return err
	}
	host, err := c.host.PID()
	if err != nil {
		return err
	}
	for _, s := range services {
		if s.Name != "etcd" {
			continue
		}
		// The process is known by the number that it has on its machine.
		kill := fmt.Sprintf("kill -s %s %d", signal, s.PID)
		out, err := exec.CommandContext(ctx, "nsenter", fmt.Sprintf("--pid=/proc/%d/ns/pid", host), "--", "sh", "-c", kill).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", kill, err, out)
		}
	}
	return nil
}
