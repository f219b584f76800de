package api

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// longestToken is AWS's limit of the lifetime of a token.
const longestToken = 6 * time.Hour

// Metadata is the instance metadata service of one instance, version 2: it answers those who
// show a token that it gave them. Of the metadata it has the region, the zone and the identity
// document alone.
type Metadata struct {
	Account, Region, Zone, Instance string

	mu     sync.Mutex
	tokens map[string]time.Time // when they expire
}

// Handler answers its requests.
func (m *Metadata) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /latest/api/token", m.token)
	m.serve(mux, "placement/region", m.Region)
	m.serve(mux, "placement/availability-zone", m.Zone)
	m.serve(mux, "instance-id", m.Instance)
	mux.HandleFunc("GET /latest/dynamic/instance-identity/document", m.known(func(w http.ResponseWriter) {
		json.NewEncoder(w).Encode(map[string]string{
			"accountId": m.Account, "region": m.Region, "availabilityZone": m.Zone, "instanceId": m.Instance, "version": "2017-09-30",
		})
	}))
	return mux
}

func (m *Metadata) serve(mux *http.ServeMux, name, value string) {
	mux.HandleFunc("GET /latest/meta-data/"+name, m.known(func(w http.ResponseWriter) { w.Write([]byte(value)) }))
}

// token gives out a token for as long as is asked for.
func (m *Metadata) token(w http.ResponseWriter, r *http.Request) {
	const header = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
	seconds, err := strconv.Atoi(r.Header.Get(header))
	lifetime := time.Duration(seconds) * time.Second
	if err != nil || seconds < 1 || lifetime > longestToken {
		http.Error(w, "Bad Request", http.StatusBadRequest)
		return
	}
	token := rand.Text()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tokens == nil {
		m.tokens = map[string]time.Time{}
	}
	m.tokens[token] = time.Now().Add(lifetime)
	w.Header().Set(header, strconv.Itoa(seconds))
	w.Write([]byte(token))
}

// known answers those who show a token that has not expired.
func (m *Metadata) known(answer func(http.ResponseWriter)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		expires, found := m.tokens[r.Header.Get("X-Aws-Ec2-Metadata-Token")]
		m.mu.Unlock()
		if !found || time.Now().After(expires) {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		answer(w)
	}
}
