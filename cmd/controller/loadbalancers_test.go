package main

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	contract "github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1/webhook"
	detaching "github.com/mumoshu/ingress-daemonset-controller/internal/detach/controller"
)

// TestCheck says which flag to change.
func TestCheck(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("s", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	file := func(content string) string {
		name := filepath.Join(t.TempDir(), "roles.yaml")
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for name, c := range map[string]struct {
		change func(*loadBalancers)
		says   string
	}{
		"none": {func(*loadBalancers) {}, ""},
		"all":  {func(o *loadBalancers) { o.cloud, o.detach, o.reasons = "aws", true, list{"Cordoned"} }, ""},
		"a webhook alone": {func(o *loadBalancers) {
			o.detach, o.webhooks, o.secretFile = true, list{"lb=https://lb.example.com"}, secret
		}, ""},
		"another cloud": {func(o *loadBalancers) { o.cloud = "gcp" }, `--cloud must be aws, not "gcp"`},
		"no requests":   {func(o *loadBalancers) { o.burst = 0 }, "--cloud-burst at least 1"},
		"below 0":       {func(o *loadBalancers) { o.networkSettleTime = -time.Second }, "--network-floor and --other-floor must not be below 0"},
		"nobody waits":  {func(o *loadBalancers) { o.background = 0 }, "--cloud-background-rate must be above 0"},
		"tags": {func(o *loadBalancers) {
			o.cloud, o.detach, o.groupsTagged = "aws", true, list{"a=b", "c=d=e", "f="}
		}, ""},
		"tags for nothing": {func(o *loadBalancers) { o.cloud, o.groupsTagged = "aws", list{"a=b"} }, "--detach-groups-tagged needs --detach and --cloud"},
		"no tag": {func(o *loadBalancers) {
			o.cloud, o.detach, o.groupsTagged = "aws", true, list{"a"}
		}, `--detach-groups-tagged must be KEY=VALUE, with a key once, not "a"`},
		"a tag of two values": {func(o *loadBalancers) {
			o.cloud, o.detach, o.groupsTagged = "aws", true, list{"a=b", "a=c"}
		}, `not "a=c"`},
		"roles": {func(o *loadBalancers) {
			o.cloud, o.rolesFile = "aws", file("roles:\n- arn: arn:aws:iam::123456789012:role/a\n- arn: arn:aws:iam::123456789012:role/a\n  externalID: x\n")
		}, ""},
		"roles of no cloud": {func(o *loadBalancers) { o.rolesFile = file("roles: []") }, "--assume-roles-file and --require-group-tag need --cloud"},
		"a tag of no cloud": {func(o *loadBalancers) { o.requireGroupTag = true }, "--require-group-tag need --cloud"},
		"no file of roles":  {func(o *loadBalancers) { o.cloud, o.rolesFile = "aws", "/nowhere" }, "--assume-roles-file: open /nowhere"},
		"a user for a role": {func(o *loadBalancers) {
			o.cloud, o.rolesFile = "aws", file("roles: [{arn: 'arn:aws:iam::123456789012:user/a'}]")
		}, `--assume-roles-file: "arn:aws:iam::123456789012:user/a" is not the ARN of a role`},
		"a role twice": {func(o *loadBalancers) {
			o.cloud, o.rolesFile = "aws", file("roles: [{arn: 'arn:aws:iam::123456789012:role/a'}, {arn: 'arn:aws:iam::123456789012:role/a'}]")
		}, "is there twice"},
		"a role's name": {func(o *loadBalancers) {
			o.cloud, o.rolesFile = "aws", file("roles: [{name: a}]")
		}, `--assume-roles-file: error unmarshaling JSON: while decoding JSON: json: unknown field "name"`},
		"no detaching":   {func(o *loadBalancers) { o.webhooks = list{"lb=https://lb.example.com"} }, "--detach-webhook needs --detach"},
		"nothing to do":  {func(o *loadBalancers) { o.detach = true }, "set --cloud, or --detach-webhook"},
		"half of them":   {func(o *loadBalancers) { o.minAttached = "50%" }, ""},
		"less than none": {func(o *loadBalancers) { o.minAttached = "-1" }, `--detach-min-attached must be a number from 0 up, or a percentage from 0% to 100%, not "-1"`},
		"more than all":  {func(o *loadBalancers) { o.minAttached = "101%" }, `not "101%"`},
		"no number":      {func(o *loadBalancers) { o.minAttached = "most" }, `not "most"`},
		"unknown reason": {func(o *loadBalancers) { o.cloud, o.reasons = "aws", list{"Tainted"} }, `there is no reason "Tainted", but Annotated, `},
		"no secret":      {func(o *loadBalancers) { o.detach, o.webhooks = true, list{"lb=https://lb.example.com"} }, "--detach-webhook-secret-file: "},
		"no name": {func(o *loadBalancers) {
			o.detach, o.webhooks, o.secretFile = true, list{"https://lb.example.com"}, secret
		}, "--detach-webhook must be NAME=URL"},
		"two of a name": {func(o *loadBalancers) {
			o.detach, o.webhooks, o.secretFile = true, list{"lb=https://a.example.com", "other=https://b.example.com", "lb=https://c.example.com"}, secret
		}, "two are called lb"},
		"no authority": {func(o *loadBalancers) {
			o.detach, o.webhooks, o.secretFile, o.caFile = true, list{"lb=https://lb.example.com"}, secret, secret
		}, "holds no certificate"},
		"no URL": {func(o *loadBalancers) { o.detach, o.webhooks, o.secretFile = true, list{"lb=lb.example.com"}, secret }, "--detach-webhook lb: "},
	} {
		o := loadBalancers{rate: 4, burst: 20, background: 5, groupsEvery: time.Minute, minAttached: "1"}
		c.change(&o)
		err := o.check()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTagsOf reads tags as AWS has them: values may be empty, and have an equals sign.
func TestTagsOf(t *testing.T) {
	tags, err := tagsOf([]string{"a=b", "c=d=e", "f="})
	if want := map[string]string{"a": "b", "c": "d=e", "f": ""}; err != nil || !maps.Equal(tags, want) {
		t.Errorf("%v, %v", tags, err)
	}
}

// TestWhatAWebhookIsAskedAndAnswers goes through as it is: a node of which its load balancer says that it is not
// done is not out.
func TestWhatAWebhookIsAskedAndAnswers(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	node := contract.Node{
		Name: "n1", ProviderID: "aws:///z1/i-1", Labels: map[string]string{"zone": "a"}, Addresses: []contract.Address{{Type: "InternalIP", Address: "192.0.2.1"}},
	}
	for name, c := range map[string]struct {
		status int
		action contract.Action
		want   detaching.Answer
	}{
		"is out":          {http.StatusOK, contract.Detach, detaching.Answer{Done: true, Message: "3 are open"}},
		"is not out yet":  {http.StatusAccepted, contract.Detach, detaching.Answer{RetryAfter: 7 * time.Second, Message: "3 are open"}},
		"is back":         {http.StatusOK, contract.Attach, detaching.Answer{Done: true, Message: "3 are open"}},
		"is not back yet": {http.StatusAccepted, contract.Attach, detaching.Answer{RetryAfter: 7 * time.Second, Message: "3 are open"}},
		"cannot be told":  {http.StatusInternalServerError, contract.Detach, detaching.Answer{}},
	} {
		var asked contract.Request
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
				t.Error(err)
			}
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, "3 are open")
		}))
		secret := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(secret, []byte(strings.Repeat("s", contract.MinSecret)), 0o600); err != nil {
			t.Fatal(err)
		}
		hooks, err := (&loadBalancers{webhooks: list{"lb=" + server.URL}, secretFile: secret}).detachWebhooks()
		if err != nil || len(hooks) != 1 || hooks[0].Name != "lb" {
			t.Fatalf("%v, %v", hooks, err)
		}
		want := contract.Request{ID: "uid/1", Action: c.action, Reason: "Cordoned", Since: since, Node: node}
		got, err := hooks[0].Ask(t.Context(), want)
		server.Close()
		if got != c.want || (err != nil) != (c.want == detaching.Answer{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
