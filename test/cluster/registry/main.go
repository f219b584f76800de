// Command registry serves the cluster's container images, in the place of every registry
// there is: a node that wants docker.io/library/nginx asks for
// /v2/library/nginx/...?ns=docker.io and is given the repository
// docker.io/library/nginx of this one.
package main

import (
	"flag"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:5000", "address to serve plain HTTP on")
	blobs := flag.String("blobs", "blobs", "folder for the content of images; manifests are kept in memory")
	flag.Parse()
	if err := os.MkdirAll(*blobs, 0o755); err != nil {
		log.Fatal(err)
	}
	handler := registry.New(registry.WithBlobHandler(registry.NewDiskBlobHandler(*blobs)))
	log.Fatal(http.ListenAndServe(*listen, byRegistry(handler)))
}

// byRegistry makes the registry that a mirror is asked for a part of the
// repository's name, where a colon is not allowed.
func byRegistry(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, found := strings.CutPrefix(r.URL.Path, "/v2/")
		if origin := r.URL.Query().Get("ns"); origin != "" && found && name != "" {
			r.URL.Path = "/v2/" + strings.ReplaceAll(origin, ":", "_") + "/" + name
		}
		next.ServeHTTP(w, r)
	})
}
