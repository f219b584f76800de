package table

import (
	"bytes"
	"encoding/pem"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/selfsigned"
)

// certify makes a certificate for these names.
func certify(t *testing.T, name string, names ...string) wire.Resource {
	t.Helper()
	c := selfsigned.For(t, names...)
	return wire.Resource{Name: name, Certificate: &wire.Certificate{Chain: c.Chain, Key: c.Key}}
}

// presents is the name of the resource whose certificate a client is presented that asks for a name.
func presents(t *testing.T, table *Table, all []wire.Resource, name string) string {
	t.Helper()
	got := table.Certificate(here, 443, name)
	if got == nil {
		return ""
	}
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: got.Certificate[0]})
	for _, r := range all {
		if bytes.Equal(r.Certificate.Chain, chain) {
			return r.Name
		}
	}
	t.Fatalf("asked for %q, a certificate is presented that is not known", name)
	return ""
}

func TestCertificates(t *testing.T) {
	all := []wire.Resource{
		certify(t, "first"), certify(t, "exact", "A.com", "b.com"), certify(t, "wild", "*.com"), certify(t, "again", "a.com"),
		certify(t, "own", "*.own.com"), certify(t, "foreign", "c.own.com"), certify(t, "new", "a.com"), certify(t, "default", "*.d.org"), certify(t, "mine", "*.d.org"),
	}
	table := made(t, append(append(all[:6:6], all[7:]...),
		secure("default", "*.d.org", "default", "", "mine"), secure("twice", "twice.d.org", "default", "", "default", "mine"),
		secure("any", "*.com", "absent", "first", "wild", "exact", "again"), secure("own", "*.own.com", "own"),
		secure("none", "none.com", "absent"), secure("strict", "*.s.org", "", "own"), secure("behind", "*.t.org", "absent", "", "own"), secure("www", "a.org", "wild"), listener("plain", func(l *wire.Listener) { l.Port, l.Hostname = 443, "plain.org" }))...)
	for name, want := range map[string]string{
		"a.com":     "exact",
		"a.com.":    "exact",
		"b.com":     "exact",
		"x.com":     "wild",
		"x.y.com":   "first",
		"c.own.com": "own",
		"d.own.com": "own",
		"own.com":   "wild",
		"none.com":  "",
		"x.s.org":   "",
		"x.t.org":   "",
		"a.org":     "wild",
		"b.org":     "",
		"plain.org": "",
		// A default one is for what no other is for, unless an Ingress names it, too.
		"x.d.org":     "mine",
		"x.y.d.org":   "default",
		"twice.d.org": "default",
		"":            "",
	} {
		if got := presents(t, table, all, name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	for _, step := range []struct {
		c       Changes
		refused int
		want    string
	}{
		{Changes{Set: []wire.Resource{{Name: "exact", Certificate: &wire.Certificate{Chain: all[1].Certificate.Chain, Key: all[0].Certificate.Key}}}}, 1, "exact"},
		{Changes{Set: []wire.Resource{{Name: "exact", Certificate: all[0].Certificate}}}, 0, "again"},
		{Changes{Set: []wire.Resource{{Name: "exact", Certificate: all[6].Certificate}}}, 0, "new"},
		{Changes{Removed: []string{"certificate/exact"}}, 0, "new"},
		{Changes{Set: []wire.Resource{secure("any", "*.com", "first", "wild")}}, 0, "wild"},
		{Changes{Set: []wire.Resource{secure("any", "*.com", "exact", "first")}}, 0, "first"},
		{Changes{Set: []wire.Resource{secure("any", "", "exact", "again")}}, 0, "again"},
	} {
		result := table.Apply(step.c)
		if len(result.Refused) != step.refused {
			t.Errorf("refused are %v", result.Refused)
		}
		table = result.Table
		if got := presents(t, table, all, "a.com"); got != step.want {
			t.Errorf("got %q, want %q", got, step.want)
		}
	}
	if got := presents(t, table, all, ""); got != "again" {
		t.Errorf("no name: got %q, want the first that is there", got)
	}
	table = applied(t, table, Changes{Removed: []string{"listener/any", "listener/own", "listener/none", "listener/strict", "listener/behind", "listener/www", "listener/default", "listener/twice", "certificate/default", "certificate/mine",
		"certificate/first", "certificate/wild", "certificate/again", "certificate/own", "certificate/foreign"}})
	if table.certificates.entries.size+table.named.size != 0 {
		t.Errorf("%d certificates and %d names are left", table.certificates.entries.size, table.named.size)
	}
}
