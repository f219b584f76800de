package gatewayapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const (
	good = `{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute","metadata":{"namespace":"shop","name":"good","resourceVersion":"1"},"spec":{"hostnames":["a.example"]},"status":{"parents":[{"controllerName":"one"}]}}`
	// oddTime has a time that its CRD takes, and Go does not read.
	oddTime = `{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute","metadata":{"namespace":"shop","name":"odd-time","resourceVersion":"1"},"spec":{"hostnames":["b.example"]},"status":{"parents":[
		{"controllerName":"one","conditions":[{"type":"Accepted","lastTransitionTime":"2026-11-30t01:02:03z"}]},{"controllerName":"two"}]}}`
	// odd has another type than this version of the API.
	odd = `{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute","metadata":{"namespace":"shop","name":"odd","resourceVersion":"1"},"spec":{"hostnames":"c.example"}}`
)

// TestConvert: what cannot be read of a status is left out, and what an object asks for is read whole or not at all.
func TestConvert(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{good, "a.example, one"},
		{oddTime, "b.example, two"},
		{odd, "it is no HTTPRoute of gateway.networking.k8s.io/v1 as this controller knows it"},
		{`{"apiVersion":"gateway.networking.k8s.io/v1","kind":"TCPRoute"}`, `a "TCPRoute" is no kind`},
	} {
		raw := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(c.text), raw); err != nil {
			t.Fatal(err)
		}
		said, malformed := "", Malformed{}
		object, err := Convert(raw)
		if route, is := object.(*gatewayv1.HTTPRoute); is {
			said = string(route.Spec.Hostnames[0])
			for _, p := range route.Status.Parents {
				said += ", " + string(p.ControllerName)
			}
		}
		if errors.As(err, &malformed) {
			said = err.Error()
		}
		if !strings.Contains(said, c.want) || (err == nil) != (said == c.want) {
			t.Errorf("of %s comes %q, %v, want %q", c.text, said, err, c.want)
		}
	}
}

// TestOneMalformed: an object that cannot be read keeps no other of its kind from being watched.
func TestOneMalformed(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Has("sendInitialEvents"):
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		case r.URL.Query().Has("watch"):
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			fmt.Fprintf(w, `{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRouteList","metadata":{"resourceVersion":"1"},"items":[%s,%s,%s]}`, good, oddTime, odd)
		}
	}))
	defer api.Close()
	scheme, mapper := runtime.NewScheme(), meta.NewDefaultRESTMapper(nil)
	if err := gatewayv1.Install(scheme); err != nil {
		t.Fatal(err)
	}
	mapper.Add(gatewayv1.SchemeGroupVersion.WithKind("HTTPRoute"), meta.RESTScopeNamespace)
	c, err := cache.New(&rest.Config{Host: api.URL}, cache.Options{Scheme: scheme, Mapper: mapper, ReaderFailOnMissingInformer: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	ended := make(chan error)
	defer func() {
		cancel()
		<-ended
	}()
	go func() { ended <- c.Start(ctx) }()
	k := New(c, c, func(context.Context) (map[string]bool, error) { return map[string]bool{"HTTPRoute": true}, nil })
	if err := k.Look(ctx); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the kind is synced", k.Complete)
	for name, reads := range map[string]bool{"good": true, "odd-time": true, "odd": false} {
		malformed := Malformed{}
		_, err := k.Get(ctx, "HTTPRoute", types.NamespacedName{Namespace: "shop", Name: name})
		if (err == nil) != reads || !reads && !errors.As(err, &malformed) {
			t.Errorf("reading %s: %v", name, err)
		}
	}
}
