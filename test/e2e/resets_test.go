package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// resets has one of four endpoints reset each connection: proxies leave it out, lose no GET by it, and take it back
// when it is well.
func resets(ctx context.Context, t *testing.T, fleet *harness.Fleet) {
	const service, failTimeout = "resets", 10 * time.Second
	well, broken := ending{name: "well"}, ending{name: "broken", args: []string{"--reset"}}
	namespace := fleet.Key.Namespace
	if err := create(ctx, append(served(namespace, service), well.pods(namespace, service, 3), broken.pods(namespace, service, 1))...); err != nil {
		t.Fatal(err)
	}
	for name, replicas := range map[string]int32{well.name: 3, broken.name: 1} {
		if err := waitScaled(ctx, client.ObjectKey{Namespace: namespace, Name: name}, replicas); err != nil {
			t.Fatal(err)
		}
	}
	sender, stop := sending(ctx, t, fleet.Nodes(), proxyPort, harness.Request{Method: "GET", Host: service})
	time.Sleep(2 * failTimeout)
	// A machine that is busy takes longer.
	if err := harness.Wait(ctx, "enough requests", func() (bool, error) { return sender.Snapshot().Requests >= enough, nil }); err != nil {
		t.Fatal(err)
	}
	reset, err := number(ctx, namespace, broken.name, "/well")
	if err != nil {
		t.Fatal(err)
	}
	err = harness.Wait(ctx, "the endpoint that is well to get its share", func() (bool, error) {
		asked, err := number(ctx, namespace, broken.name, "/asked")
		return asked > enough/100, err
	})
	if err != nil {
		t.Error(err)
	}
	report := stop()
	losesNothing(t, report)
	t.Logf("%d requests were reset", reset)
	// Each of six proxies tries it now and then, with what is under way at that moment.
	if share := int(report.Requests / 4); reset == 0 || reset > share/10 {
		t.Errorf("%d requests were reset, where its share is %d", reset, share)
	}
}

// number gets one from the only pod of a backend.
func number(ctx context.Context, namespace, app, path string) (int, error) {
	pods := &corev1.PodList{}
	if err := theHarness.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{"app": app}); err != nil {
		return 0, err
	}
	if len(pods.Items) != 1 {
		return 0, fmt.Errorf("%d pods of %s", len(pods.Items), app)
	}
	body, err := get(ctx, net.JoinHostPort(pods.Items[0].Status.PodIP, "8080"), app, path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(body))
}

// get asks an address of the cluster on a connection of its own.
func get(ctx context.Context, address, host, path string) (body string, err error) {
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DialContext: theHarness.DialContext, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, "GET", "http://"+address+path, nil)
	if err != nil {
		return "", err
	}
	request.Host = host
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, content)
	}
	return string(content), err
}
