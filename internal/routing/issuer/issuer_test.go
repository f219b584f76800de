package issuer

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/authority"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// settle passes when it is due, until that is not soon.
func (r *replica) settle(t *testing.T) time.Duration {
	t.Helper()
	for range 10 {
		after := r.pass(t)
		if after == 0 || after >= time.Second {
			return after
		}
		time.Sleep(after)
	}
	t.Fatal("it passes on and on")
	return 0
}

// TestFirstStart: the Secret is written, then ConfigMaps by it, then a certificate is shown that proxies
// accept. Nothing is due before that is to be renewed.
func TestFirstStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := edge(t)
		r := c.replica(true)
		if _, err := r.Certificate(); err == nil || !strings.Contains(err.Error(), home+"/"+Name) {
			t.Errorf("before the first pass the certificate is missing by %v", err)
		}
		if r.pass(t); c.wrote() != "create Secret system" || c.configMap(t, "edge") != nil {
			t.Error("the first pass writes more or less than the Secret")
		}
		begun := time.Now()
		if after := r.settle(t); time.Since(begun) > 50*time.Millisecond || after != 6*time.Hour || c.wrote() != "create ConfigMap edge" {
			t.Errorf("it settles after %v, and looks again after %v", time.Since(begun), after)
		}
		if !r.accepted(t, "edge") {
			t.Fatal("proxies do not accept what it shows")
		}
		secret, configMap := c.secret(t), c.configMap(t, "edge")
		if secret.Type != authority.SecretType || configMap.Data[authority.FileAddress] != "10.0.0.1:9443" || len(configMap.OwnerReferences) != 0 {
			t.Errorf("the Secret is a %s, the ConfigMap is %+v", secret.Type, configMap)
		}
		for _, o := range []client.Object{secret, configMap} {
			if o.GetLabels()["app.kubernetes.io/managed-by"] != "ingress-daemonset-controller" {
				t.Errorf("labels of the %T are %v", o, o.GetLabels())
			}
		}
		before, _ := r.Certificate()
		r.pass(t)
		if now, _ := r.Certificate(); c.wrote() != "" || now != before {
			t.Error("at rest it writes, or has another certificate signed")
		}
		r.quiet(t, "where all is well")
	})
}

// TestFollower: who does not lead writes nothing and shows a certificate of its own, of the same authority. When
// it begins to lead it writes what is to be written.
func TestFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := edge(t)
		follower := c.replica(false)
		follower.settle(t)
		if _, err := follower.Certificate(); err == nil || c.wrote() != "" {
			t.Error("alone it writes, or shows a certificate")
		}
		leader := c.replica(true)
		if leader.settle(t); !leader.accepted(t, "edge") {
			t.Fatal("proxies do not accept what the leader shows")
		}
		c.wrote()
		if after := follower.settle(t); after != 6*time.Hour || !follower.accepted(t, "edge") {
			t.Fatalf("proxies do not accept what it shows, or it looks again after %v", after)
		}
		one, _ := leader.Certificate()
		other, _ := follower.Certificate()
		if bytes.Equal(one.Certificate[0], other.Certificate[0]) {
			t.Error("both show the same certificate")
		}
		c.remove(t, c.configMap(t, "edge"))
		if follower.settle(t); c.wrote() != "" {
			t.Error("it writes")
		}
		follower.leads = true
		if follower.settle(t); c.wrote() != "create ConfigMap edge" {
			t.Error("as the leader it does not write what is missing")
		}
	})
}

// TestRestored: a ConfigMap that somebody changes or deletes is written again. Labels that others set stay.
func TestRestored(t *testing.T) {
	for name, change := range map[string]func(*corev1.ConfigMap){
		"another address": func(m *corev1.ConfigMap) { m.Data[authority.FileAddress] = "evil.example.com:443" },
		"a file more":     func(m *corev1.ConfigMap) { m.Data["note"] = "mine" },
		"a binary file":   func(m *corev1.ConfigMap) { m.BinaryData = map[string][]byte{"note": {0xff}} },
		"a file moved": func(m *corev1.ConfigMap) {
			m.BinaryData = map[string][]byte{authority.FileAuthorities: []byte("x")}
			delete(m.Data, authority.FileAuthorities)
		},
		"emptied": func(m *corev1.ConfigMap) { m.Data, m.Labels = nil, nil },
		"deleted": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, r := installed(t)
				want := c.configMap(t, "edge")
				if change == nil {
					c.remove(t, want)
				} else {
					changed := want.DeepCopy()
					changed.Labels["team"] = "edge"
					change(changed)
					c.put(t, changed)
				}
				r.settle(t)
				got := c.configMap(t, "edge")
				if got == nil || fmt.Sprint(got.Data) != fmt.Sprint(want.Data) || len(got.BinaryData) != 0 || got.Labels["app.kubernetes.io/managed-by"] == "" {
					t.Fatalf("it is %+v, want %+v", got, want)
				}
				if change != nil && name != "emptied" && got.Labels["team"] != "edge" {
					t.Error("the label of others is gone")
				}
				if got := c.wrote(); strings.Contains(got, "Secret") {
					t.Errorf("written is %s", got)
				}
				r.quiet(t, "what is restored needs nobody")
			})
		})
	}
}

// TestSecretConflict: of two that believe to lead and make a Secret, one does, and the other goes by that. One
// that changes meanwhile is not overwritten.
func TestSecretConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := edge(t)
		late, other := c.replica(true), c.replica(true)
		c.before = func(string, client.Object) error {
			c.before = nil
			other.settle(t)
			return nil
		}
		if after := late.pass(t); after != conflictPause {
			t.Errorf("after a conflict it looks again after %v", after)
		}
		kept := c.secret(t).Data
		late.settle(t)
		if !late.accepted(t, "edge") || !other.accepted(t, "edge") || !bytes.Equal(c.secret(t).Data["sha256"], kept["sha256"]) {
			t.Error("there is a second authority")
		}
		late.quiet(t, "a conflict needs nobody")

		// An authority long before whose end both make the next one.
		time.Sleep(245 * 24 * time.Hour)
		c.before = func(string, client.Object) error {
			c.before = nil
			other.settle(t)
			return nil
		}
		if after := late.pass(t); after != conflictPause || c.secret(t).Data["next.crt"] == nil {
			t.Errorf("after a conflict it looks again after %v", after)
		}
		next := c.secret(t).Data["next.crt"]
		if late.settle(t); !bytes.Equal(c.secret(t).Data["next.crt"], next) {
			t.Error("there is a second next authority")
		}
	})
}

// TestConfigMapConflict: one that changes between read and write is read again.
func TestConfigMapConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := installed(t)
		want := c.configMap(t, "edge")
		edited := func(by string) *corev1.ConfigMap {
			m := want.DeepCopy()
			m.Data["note"], m.Labels["by"] = by, by
			return m
		}
		c.put(t, edited("first"))
		c.before = func(string, client.Object) error {
			c.before = nil
			c.put(t, edited("second"))
			return nil
		}
		if after := r.pass(t); after != conflictPause || c.configMap(t, "edge").Data["note"] != "second" {
			t.Errorf("after a conflict it looks again after %v", after)
		}
		r.settle(t)
		if got := c.configMap(t, "edge"); got.Data["note"] != "" || got.Labels["by"] != "second" {
			t.Errorf("it is %+v", got)
		}
		// One that is made meanwhile is such a conflict, too.
		c.remove(t, c.configMap(t, "edge"))
		c.before = func(string, client.Object) error {
			c.before = nil
			c.put(t, &corev1.ConfigMap{ObjectMeta: named("edge", Name)})
			return nil
		}
		if after := r.pass(t); after != conflictPause {
			t.Errorf("after a conflict it looks again after %v", after)
		}
		r.settle(t)
		if got := c.configMap(t, "edge"); fmt.Sprint(got.Data) != fmt.Sprint(want.Data) {
			t.Errorf("it is %+v", got)
		}
		r.quiet(t, "a conflict needs nobody")
	})
}

// TestCrash: who begins after the leader ended between the Secret and ConfigMaps goes on with that Secret.
func TestCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := edge(t)
		c.replica(true).pass(t)
		kept := c.secret(t)
		if kept == nil || c.configMap(t, "edge") != nil {
			t.Fatal("the Secret is not written before ConfigMaps")
		}
		r := c.replica(true)
		c.wrote()
		if r.settle(t); c.wrote() != "create ConfigMap edge" || !r.accepted(t, "edge") || c.secret(t).ResourceVersion != kept.ResourceVersion {
			t.Error("it does not go on with the Secret that there is")
		}
	})
}

// TestLeadsNoMore: who was overtaken between its decision and its write does not write.
func TestLeadsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := edge(t)
		r := c.replica(true)
		asked := 0
		r.Leads = func() bool {
			asked++
			return asked == 1
		}
		if after := r.pass(t); after != conflictPause || c.wrote() != "" {
			t.Errorf("it writes, or looks again after %v", after)
		}
		r.quiet(t, "who leads no more")
	})
}

// TestReadsFail: where anything cannot be read nothing is decided.
func TestReadsFail(t *testing.T) {
	for _, kind := range []string{"Secret", "Service", "IngressClassList", "PartialObjectMetadataList", "Namespace", "ConfigMap"} {
		synctest.Test(t, func(t *testing.T) {
			c := edge(t)
			r := c.replica(true)
			c.unread = kind
			if _, err := r.Reconcile(t.Context(), everything); err == nil || c.wrote() != "" {
				t.Errorf("without any %s the pass ends with %v, written is %s", kind, err, c.wrote())
			}
			c.unread = ""
			if r.settle(t); !r.accepted(t, "edge") {
				t.Errorf("with %s again it shows nothing that proxies accept", kind)
			}
		})
	}
}

// TestRenewal: a certificate is replaced at half of its life and not before, also where nobody calls for a pass.
func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, r := installed(t)
		first, _ := r.Certificate()
		after := r.pass(t)
		time.Sleep(after - time.Second)
		r.pass(t)
		if now, _ := r.Certificate(); now != first {
			t.Error("it is replaced early")
		}
		time.Sleep(time.Second)
		after = r.settle(t)
		if now, _ := r.Certificate(); now == first || after != 6*time.Hour || !r.accepted(t, "edge") {
			t.Errorf("it is not replaced, or looked at again after %v", after)
		}
	})
}

// TestSuccession: passes that are made when they are due, and at no other time, bring the next authority from
// the Secret to ConfigMaps to certificates, and the old one out. A follower goes with it.
func TestSuccession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, leader := installed(t)
		follower := c.replica(false)
		follower.settle(t)
		first := c.secret(t).Data["signing.crt"]
		time.Sleep(245*24*time.Hour - time.Hour)
		steps, end := map[string]bool{}, time.Now().Add(30*time.Hour)
		for time.Now().Before(end) {
			after := leader.settle(t)
			if followerAfter := follower.settle(t); followerAfter < after {
				after = followerAfter
			}
			if after == 0 {
				t.Fatal("it never looks again")
			}
			if !leader.accepted(t, "edge") || !follower.accepted(t, "edge") {
				t.Fatalf("at %v proxies do not accept what is shown", time.Now())
			}
			data := c.secret(t).Data
			steps[fmt.Sprint(bytes.Equal(data["signing.crt"], first), data["next.crt"] != nil, data["former.crt"] != nil)] = true
			time.Sleep(after)
		}
		for _, want := range []string{"true false false", "true true false", "false false true", "false false false"} {
			if !steps[want] {
				t.Errorf("first signs, next, former: %s is missing in %v", want, steps)
			}
		}
	})
}

// TestNoKeyIsSaid: the text of an answer to a write of keys is left out, whoever wrote it; what it comes to is
// said once, and all is tried again.
func TestNoKeyIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := edge(t)
		r := c.replica(true)
		c.before = func(_ string, o client.Object) error {
			return denied("no: %s", o.(*corev1.Secret).Data["signing.key"])
		}
		if after := r.pass(t); after != retryPause {
			t.Errorf("it looks again after %v", after)
		}
		events, logs := r.said()
		if len(events) != 1 || !strings.HasPrefix(events[0], "Warning Secret system/"+Name+" AuthoritiesNotWritten: ") || !strings.Contains(events[0], "403 Forbidden") {
			t.Errorf("events are %q", events)
		}
		if said := fmt.Sprint(events, logs); len(logs) != 1 || strings.Contains(said, "KEY") || strings.Contains(said, "no:") {
			t.Errorf("said is %s", said)
		}
		time.Sleep(retryPause)
		r.pass(t)
		r.quiet(t, "the same again")
		c.before = func(string, client.Object) error { return errors.New("connection refused") }
		r.pass(t)
		if events, _ := r.said(); len(events) != 1 || !strings.Contains(events[0], "connection refused") {
			t.Errorf("events of another failure are %q", events)
		}
		c.before = nil
		if r.settle(t); !r.accepted(t, "edge") {
			t.Error("it is not tried again")
		}
		for _, line := range r.logs {
			if strings.Contains(line, "KEY") {
				t.Errorf("logged is %s", line)
			}
		}
	})
}
