package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestByRegistry(t *testing.T) {
	for url, want := range map[string]string{
		"/v2/library/nginx/manifests/1?ns=docker.io": "/v2/docker.io/library/nginx/manifests/1",
		"/v2/x/blobs/y?ns=example.com:8443":          "/v2/example.com_8443/x/blobs/y",
		"/v2/quay.io/a/b/manifests/2":                "/v2/quay.io/a/b/manifests/2",
		"/v2/?ns=docker.io":                          "/v2/",
	} {
		var got string
		handler := byRegistry(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.URL.Path }))
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, url, nil))
		if got != want {
			t.Errorf("%s asks for %s, want %s", url, got, want)
		}
	}
}
