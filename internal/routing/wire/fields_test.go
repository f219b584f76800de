package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func mustEncode(t testing.TB, r Resource) []byte {
	t.Helper()
	b, err := Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBytes holds the bytes of resources as proxies of before and after read them: this table grows,
// and none of it changes.
func TestBytes(t *testing.T) {
	empty := ""
	for _, test := range []struct {
		name     string
		resource Resource
		hex      string
	}{
		{"certificate", Resource{Name: "c", Certificate: &Certificate{Chain: []byte("ab"), Key: []byte("k")}},
			"0a0163" + "1207" + "0a026162" + "12016b"},
		{"no endpoints", Resource{Name: "e", Endpoints: &Endpoints{}},
			"0a0165" + "1a00"},
		{"endpoints", Resource{Name: "e", Endpoints: &Endpoints{All: []Endpoint{{Address: "::1", Port: 80, UID: "u", Zone: "z", Node: "n", State: Terminating}, {}}}},
			"0a0165" + "1a16" + "0a12" + "0a033a3a31" + "1050" + "1a0175" + "22017a" + "2a016e" + "3001" + "0a00"},
		{"backend", Resource{Name: "b", Backend: &Backend{Service: Object{Kind: "Service", Created: -1}, Port: 8080, Protocol: "h2c", Cookie: "c", MaxFails: 1, FailTimeout: 10000}},
			"0a0162" + "2226" + "0a14" + "0a0753657276696365" + "20ffffffffffffffffff01" + "10903f" + "1a03683263" + "220163" + "2801" + "30904e"},
		{"listener", Resource{Name: "l", Listener: &Listener{Section: "s", Address: "a", Port: 443, Hostname: "h", TLS: true, Certificates: []string{"c", ""}}},
			"0a016c" + "2a13" + "120173" + "1a0161" + "20bb03" + "2a0168" + "3001" + "3a0163" + "3a00"},
		{"route", Resource{Name: "r", Route: &Route{
			Object: Object{Name: "o", Namespace: "n", Generation: 2}, Rule: 1, Named: "x", Listeners: []string{"l"}, Hostnames: []string{"h"}, OneLabel: true,
			Matches:  []Match{{PathType: Exact, Path: "/", Method: "GET", Headers: []NamedMatch{{Name: "a", Value: "b", Regex: true}}, Query: []NamedMatch{{}}}},
			Filters:  []Filter{{Kind: Rewrite, URL: &URLFilter{Scheme: "s", Hostname: "h", Port: 1, ReplacePath: &empty, ReplacePrefix: &empty, Status: 301}}},
			Backends: []Share{{Backend: "b", Weight: 1, Status: 500, Filters: []Filter{{Headers: &HeaderFilter{Set: []Header{{"s", "v"}}, Add: []Header{{}}, Remove: []string{"r"}}}}}},
			Fallback: 503, Timeout: 1, BackendTimeout: 2,
		}},
			"0a0172" + "3266" + "0a08" + "12016e" + "1a016f" + "2802" + "1001" + "1a0178" + "22016c" + "2a0168" + "3001" +
				"3a16" + "0801" + "12012f" + "1a03474554" + "2208" + "0a0161" + "120162" + "1801" + "2a00" +
				"4213" + "0804" + "1a0f" + "0a0173" + "120168" + "1801" + "2200" + "2a00" + "30ad02" +
				"4a19" + "0a0162" + "1001" + "18f403" + "220f" + "120d" + "0a06" + "0a0173" + "120176" + "1200" + "1a0172" +
				"50f703" + "5801" + "6002"},
	} {
		t.Run(test.name, func(t *testing.T) {
			want, err := hex.DecodeString(test.hex)
			if err != nil {
				t.Fatal(err)
			}
			got := mustEncode(t, test.resource)
			if !bytes.Equal(got, want) {
				t.Errorf("got  %x\nwant %x", got, want)
			}
			back, err := Decode(got)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.resource, back); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestEveryFieldIsWritten changes each field of each type, and sees the bytes change: none was
// forgotten in fields.go.
func TestEveryFieldIsWritten(t *testing.T) {
	for _, fresh := range []func() Resource{
		func() Resource { return Resource{Name: "n", Certificate: &Certificate{}} },
		func() Resource { return Resource{Name: "n", Endpoints: &Endpoints{All: []Endpoint{{}}}} },
		func() Resource { return Resource{Name: "n", Backend: &Backend{}} },
		func() Resource { return Resource{Name: "n", Listener: &Listener{}} },
		func() Resource {
			filters := func() []Filter {
				return []Filter{{Headers: &HeaderFilter{Set: []Header{{}}, Add: []Header{{}}}, URL: &URLFilter{}}}
			}
			return Resource{Name: "n", Route: &Route{Filters: filters(), Backends: []Share{{Filters: filters()}},
				Matches: []Match{{Headers: []NamedMatch{{}}, Query: []NamedMatch{{}}}}}}
		},
	} {
		before := mustEncode(t, fresh())
		fields := 0
		for ; ; fields++ {
			r, at := fresh(), fields
			path, changed := change(reflect.ValueOf(&r).Elem(), "", &at)
			if !changed {
				break
			}
			after := mustEncode(t, r)
			if bytes.Equal(before, after) {
				t.Errorf("%s is not written", path)
			}
			if back, err := Decode(after); err != nil || !cmp.Equal(r, back) {
				t.Errorf("%s is not read: %v %s", path, err, cmp.Diff(r, back))
			}
		}
		if fields < 3 {
			t.Errorf("%s has %d fields", fresh().Kind(), fields)
		}
	}
}

// change sets the field number at to something, and says which it is. What is there is gone through
// in depth; a nil pointer or list is a field by itself.
func change(v reflect.Value, path string, at *int) (string, bool) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type() == reflect.TypeFor[Resource]() && v.Field(i).IsZero() {
				continue
			}
			if path, changed := change(v.Field(i), path+"."+v.Type().Field(i).Name, at); changed {
				return path, true
			}
		}
		return "", false
	case reflect.Pointer:
		if !v.IsNil() {
			return change(v.Elem(), path, at)
		}
	case reflect.Slice:
		if v.Len() > 0 {
			return change(v.Index(0), path, at)
		}
	}
	if *at--; *at >= 0 {
		return "", false
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("changed")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	default:
		panic("a field of a kind that this test does not know: " + path)
	}
	return path, true
}

// TestRefused: what Encode would not have written is not read.
func TestRefused(t *testing.T) {
	const name = "0a016e"
	long := mustEncode(t, Resource{Name: "n", Certificate: &Certificate{Chain: make([]byte, MaxResource-32)}})
	for _, test := range []struct{ name, hex, say string }{
		{"nothing", "", "no name"},
		{"no name", "1a00", "no name"},
		{"empty name", "0a00" + "1a00", "field 1 is empty"},
		{"cut tag", "8a", "ends within"},
		{"cut length", "0a", "ends within"},
		{"cut text", "0a026e", "ends within"},
		{"length beyond memory", "0affffffffffffffffff01", "ends within"},
		{"field 0", "0200", "number is 0"},
		{"field too large", name + "8280808010" + "00", "number is 0 or too large"},
		{"group", name + "0b" + "0c", "field 1"},
		{"group that is not known", name + "1a00" + "3b" + "3c", "group"},
		{"type that is not there", name + "1a00" + "3e", "group"},
		{"number instead of text", "0801", "of type 0"},
		{"text instead of number", name + "2202" + "1200", "of type 2"},
		{"number instead of message", name + "1801", "of type 0"},
		{"name twice", name + name + "1a00", "twice"},
		{"name last", "1a00" + name, "after a larger"},
		{"kind twice", name + "1a00" + "1a00", "twice"},
		{"two kinds", name + "1a00" + "2200", "several kinds"},
		{"port twice", name + "2204" + "1001" + "1002", "twice"},
		{"port after protocol", name + "2205" + "1a0161" + "1001", "after a larger"},
		{"port 0", name + "2202" + "1000", "is 0"},
		{"port 65536", name + "2204" + "10808004", "is 65536"},
		{"flag of 2", name + "2a02" + "3002", "is 2"},
		{"overlong number", name + "2203" + "108100", "longer than"},
		{"number beyond 64 bits", name + "220b" + "10ffffffffffffffffff02", "longer than"},
		{"overlong tag", "8a00016e" + "1a00", "longer than"},
		{"not UTF-8", "0a01ff" + "1a00", "UTF-8"},
		{"not UTF-8 in a list", name + "2a03" + "3a01ff", "UTF-8"},
		{"empty object", name + "2202" + "0a00", "is empty"},
		{"empty chain", name + "1202" + "0a00", "is empty"},
		{"cut within", name + "2203" + "0a0501", "ends within"},
		{"cut fixed number that is not known", name + "1a00" + "3d000000", "ends within"},
		{"too long", hex.EncodeToString(long) + strings.Repeat("7a00", 32), "more than 1048576"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, err := hex.DecodeString(test.hex)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Decode(b)
			if err == nil || !strings.Contains(err.Error(), test.say) {
				t.Fatalf("got %+v, %v; want an error with %q", r, err, test.say)
			}
			if errors.Is(err, ErrUnknownKind) {
				t.Errorf("%v: the kind is known", err)
			}
		})
	}
}

// TestNewerSender: what a later version adds is skipped, and a kind that it adds is refused by name.
func TestNewerSender(t *testing.T) {
	const later = "7a036e6577" + "800105" + "8901" + "0102030405060708" + "9501" + "01020304"
	for _, test := range []struct{ name, hex, want string }{
		{"in the resource", "0a016e" + "1a00" + later, "0a016e" + "1a00"},
		{"in the endpoint", "0a016e" + "1a1c" + "0a1a" + "1001" + later, "0a016e" + "1a04" + "0a02" + "1001"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, err := hex.DecodeString(test.hex)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			if got := hex.EncodeToString(mustEncode(t, r)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	b, _ := hex.DecodeString("0a016e" + "3a020801")
	if _, err := Decode(b); !errors.Is(err, ErrUnknownKind) || !strings.Contains(err.Error(), `"n"`) {
		t.Errorf("got %v, want one of a kind that is not known, by name", err)
	}
}

// TestNotEncoded: what could not be read is not written.
func TestNotEncoded(t *testing.T) {
	for _, test := range []struct {
		resource Resource
		say      string
	}{
		{Resource{Endpoints: &Endpoints{}}, "no name"},
		{Resource{Name: "n"}, "not of one kind"},
		{Resource{Name: "n", Endpoints: &Endpoints{}, Backend: &Backend{}}, "not of one kind"},
		{Resource{Name: "n", Backend: &Backend{Service: Object{Name: "\xff"}}}, "UTF-8"},
		{Resource{Name: "n", Listener: &Listener{Certificates: []string{"\xff"}}}, "UTF-8"},
		{Resource{Name: "n", Certificate: &Certificate{Chain: make([]byte, MaxResource)}}, "more than"},
	} {
		if b, err := Encode(test.resource); err == nil || !strings.Contains(err.Error(), test.say) {
			t.Errorf("got %d bytes, %v; want an error with %q", len(b), err, test.say)
		}
	}
}

// TestNames: names of two resources differ, and are read as what they were made of.
func TestNames(t *testing.T) {
	for _, test := range []struct {
		resource Resource
		want     string
	}{
		{Resource{Name: "shop/cheese:80", Backend: &Backend{}}, "backend/shop/cheese:80"},
		{Resource{Name: "shop/cheese:80", Endpoints: &Endpoints{}}, "endpoints/shop/cheese:80"},
		{Resource{Name: "a", Certificate: &Certificate{}}, "certificate/a"},
		{Resource{Name: "a", Listener: &Listener{}}, "listener/a"},
		{Resource{Name: "a", Route: &Route{}}, "route/a"},
	} {
		got := NameOf(test.resource)
		if got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
		if kind, name, err := ParseName(got); err != nil || kind != test.resource.Kind() || name != test.resource.Name {
			t.Errorf("%s is read as %s %s: %v", got, kind, name, err)
		}
	}
	for _, name := range []string{"", "route", "route/", "/a"} {
		if _, _, err := ParseName(name); err == nil {
			t.Errorf("%q is read", name)
		}
	}
	if _, _, err := ParseName("gateway/a"); !errors.Is(err, ErrUnknownKind) {
		t.Errorf("got %v, want one of a kind that is not known", err)
	}
	if got := Version([]byte("a")); got != "ca978112ca1bbdcafac231b39a23dc4d" {
		t.Errorf("got %s, which is not half of the SHA-256 of a", got)
	}
}

// TestResources: any resource is read as it was written, and the same content has the same bytes.
func TestResources(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := resource(t)
		b, err := Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, back); diff != "" {
			t.Fatal(diff)
		}
		if again, err := Encode(back); err != nil || !bytes.Equal(b, again) {
			t.Fatalf("%x is written again as %x: %v", b, again, err)
		}
	})
}

// FuzzResource reads any bytes or refuses them. What is read is written in the same bytes, but for
// fields that are not known.
func FuzzResource(f *testing.F) {
	for i := range 40 {
		b, err := Encode(rapid.Custom(resource).Example(i))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(b)
		if err != nil {
			return
		}
		canonical := mustEncode(t, r)
		if len(canonical) > len(b) || len(canonical) == len(b) && !bytes.Equal(canonical, b) {
			t.Fatalf("%x is written as %x", b, canonical)
		}
		back, err := Decode(canonical)
		if err != nil || !cmp.Equal(r, back) {
			t.Fatalf("%x is read as another: %v %s", canonical, err, cmp.Diff(r, back))
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	r := rapid.Custom(resource).Filter(func(r Resource) bool { return r.Route != nil && len(r.Route.Matches) > 1 }).Example(1)
	encoded := mustEncode(b, r)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Encode(r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Decode(encoded); err != nil {
				b.Fatal(err)
			}
		}
	})
}
