package webhook

import (
	"strings"
	"testing"
	"time"
)

func TestOptions(t *testing.T) {
	for _, test := range []struct {
		options Options
		want    string
	}{
		{Options{URL: "https://lb.example.com/detach?pool=a"}, ""},
		{Options{URL: "HTTPS://lb.example.com"}, ""},
		{Options{URL: "https://[2001:db8::1]:8443/"}, ""},
		{Options{URL: "http://localhost:9180"}, ""},
		{Options{URL: "http://127.0.0.2:9180"}, ""},
		{Options{URL: "http://[::1]:9180"}, ""},
		{Options{URL: "http://[::ffff:127.0.0.1]:9180"}, ""},
		{Options{URL: "http://lb.example.com", AllowHTTP: true}, ""},
		{Options{URL: "https://lb.example.com", Timeout: time.Minute}, ""},

		{Options{URL: ""}, "has no host"},
		{Options{URL: "lb.example.com/detach"}, "has no host"},
		{Options{URL: "https:///detach"}, "has no host"},
		{Options{URL: "https://:443/"}, "has no host"},
		{Options{URL: "https://lb.example.com:port/"}, "invalid port"},
		{Options{URL: "https://lb.example.com/%zz"}, "invalid URL escape"},
		{Options{URL: "https://me:hidden@lb.example.com/"}, "holds a user"},
		{Options{URL: "https://lb.example.com/#here"}, "fragment"},
		{Options{URL: "ftp://lb.example.com/"}, `scheme is "ftp"`},
		{Options{URL: "http://lb.example.com/"}, "unencrypted: it must be https"},
		{Options{URL: "http://localhost.example.com/"}, "unencrypted"},
		{Options{URL: "http://127.0.0.1.example.com/"}, "unencrypted"},
		{Options{URL: "http://10.0.0.1/"}, "unencrypted"},
		{Options{URL: "https://lb.example.com/", Secret: []byte("short")}, "webhook lb.example.com: the secret has 5 bytes"},
		{Options{URL: "https://lb.example.com/", Timeout: -1}, "timeout -1ns"},
		{Options{URL: "https://lb.example.com/", Timeout: time.Minute + 1}, "to 1m0s"},
	} {
		if test.options.Secret == nil {
			test.options.Secret = secret
		}
		_, err := New(test.options)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%+v: %v, want %q", test.options.URL, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "hidden") {
			t.Errorf("a password is told: %v", err)
		}
	}
}

// The caller may clear its copy of the secret.
func TestSecretIsCopied(t *testing.T) {
	own := append([]byte(nil), secret...)
	c := client(t, Options{URL: "https://lb.example.com", Secret: own})
	clear(own)
	if string(c.secret) != string(secret) {
		t.Error("the secret has changed")
	}
}
