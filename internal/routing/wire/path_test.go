package wire

import (
	"strings"
	"testing"
)

func TestNormalPath(t *testing.T) {
	for _, test := range []struct{ path, want string }{
		{"/", "/"},
		{"/a", "/a"},
		{"/a/", "/a/"},
		{"/a/b/c.html", "/a/b/c.html"},
		{"//", "//"},
		{"/a//b", "/a//b"},
		{"//a", "//a"},
		{"/a//", "/a//"},
		{"/%61", "/a"},
		{"/%41%7a%39", "/Az9"},
		{"/%2d%2E%5f%7E", "/-._~"},
		{"/%2f", "/%2F"},
		{"/a%2fb", "/a%2Fb"},
		{"/a%2F..%2fb", "/a%2F..%2Fb"},
		{"/%e4%bd%a0", "/%E4%BD%A0"},
		{"/ä", "/%C3%A4"},
		{"/a[b]{c}|^`<>\"", "/a%5Bb%5D%7Bc%7D%7C%5E%60%3C%3E%22"},
		{"/%25", "/%25"},
		{"/%2561", "/%2561"},
		{"/%252e%252e/a", "/%252e%252e/a"},
		{"/a%20b", "/a%20b"},
		{"/a%0d%0ab", "/a%0D%0Ab"},
		{"/%3f%23%3B%40", "/%3F%23%3B%40"},
		{"/a;b=c/d", "/a;b=c/d"},
		{"/..;/a", "/..;/a"},
		{"/.", "/"},
		{"/./", "/"},
		{"/./a", "/a"},
		{"/a/.", "/a/"},
		{"/a/./b", "/a/b"},
		{"/a/b/..", "/a/"},
		{"/a/b/../", "/a/"},
		{"/a/b/../c", "/a/c"},
		{"/a/..", "/"},
		{"/a/../b", "/b"},
		{"/a/b/../../c", "/c"},
		{"/a//../b", "/a/b"},
		{"//..", "/"},
		{"/.//a", "//a"},
		{"/a/%2e%2E/b", "/b"},
		{"/a/.%2e/b", "/b"},
		{"/a/%2e/b", "/a/b"},
		{"/a/b/%2e%2e", "/a/"},
		{"/.well-known", "/.well-known"},
		{"/...", "/..."},
		{"/a/..b/.c", "/a/..b/.c"},
		{"/a.", "/a."},
		{"/\\..\\a", "/%5C..%5Ca"},
	} {
		got, err := NormalPath(test.path)
		if got != test.want || err != nil {
			t.Errorf("%q: got %q, %v; want %q", test.path, got, err, test.want)
		}
	}
	for _, test := range []struct {
		path string
		want error
	}{
		{"", errNoPath},
		{"*", errNoPath},
		{"a", errNoPath},
		{"http://a/", errNoPath},
		{"/..", errAbove},
		{"/../a", errAbove},
		{"/a/../..", errAbove},
		{"/./..", errAbove},
		{"/%2e%2e", errAbove},
		{"/a/%2e%2e/%2E%2E/b", errAbove},
		{"/a/../../a", errAbove},
		{"/%00", errNUL},
		{"/a%00.html", errNUL},
		{"/a\x00", errByte},
		{"/a b", errByte},
		{"/a\r\nb", errByte},
		{"/a\x7f", errByte},
		{"/a?b", errByte},
		{"/a#b", errByte},
		{"/%", errEscape},
		{"/%4", errEscape},
		{"/%4g", errEscape},
		{"/%g4", errEscape},
		{"/%%34", errEscape},
		{"/a%u0041", errEscape},
	} {
		if got, err := NormalPath(test.path); err != test.want {
			t.Errorf("%q: got %q, %v; want that %v", test.path, got, err, test.want)
		}
	}
}

// FuzzNormalPath: a normal form is its own, has no dot segment, and no escape of what needs none.
func FuzzNormalPath(f *testing.F) {
	for _, s := range []string{"/", "/a/../b/%2e%2E/c", "//..//%2f/./", "/%41%7e%00", "/%", "/a/.%2e/", "/..%2f", "/.//..", "/a\\..", "/\xff%ff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		normal, err := NormalPath(path)
		if err != nil {
			return
		}
		if again, err := NormalPath(normal); again != normal || err != nil {
			t.Errorf("%q becomes %q, and that %q: %v", path, normal, again, err)
		}
		for segment := range strings.SplitSeq(normal[1:], "/") {
			if segment == "." || segment == ".." {
				t.Errorf("%q becomes %q", path, normal)
			}
		}
		for _, escape := range strings.Split(normal, "%")[1:] {
			if len(escape) < 2 || strings.ToUpper(escape[:2]) != escape[:2] || unreserved(byte(digit(escape[0])<<4|digit(escape[1]))) {
				t.Errorf("%q becomes %q, with the escape %.2q", path, normal, escape)
			}
		}
		if slashes := strings.Count(strings.ToUpper(path), "%2F"); strings.Count(normal, "%2F") > slashes {
			t.Errorf("%q becomes %q, with more escaped slashes", path, normal)
		}
	})
}

func BenchmarkNormalPath(b *testing.B) {
	for name, path := range map[string]string{"normal": "/api/v1/namespaces/default/pods", "changes": "/api/%76%31/./namespaces/../x%2fy"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := NormalPath(path); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
