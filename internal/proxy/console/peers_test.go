package console

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/peers"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
)

// onNode are proxies that see each other.
func onNode(t *testing.T, pods ...string) (all []*Console) {
	t.Helper()
	for _, pod := range pods {
		p := many(1)
		p.Pod, p.State.Position = pod, "of "+pod
		c := p.console(t)
		c.peers = peers.New("console", pod, peerPatience)
		run(t, c.AnswerPeers)
		all = append(all, c)
	}
	return all
}

// listensAs is a socket under the name of a proxy.
func listensAs(t *testing.T, key string) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", peers.New("console", "", 0).Socket(key))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// find is the process of a key.
func find(e Everything, key string) (p Process, found bool) {
	at := slices.IndexFunc(e.Processes, func(p Process) bool { return p.Key == key })
	if at < 0 {
		return p, false
	}
	return e.Processes[at], true
}

// TestNode: whichever proxy of a node is asked, it shows all of them, and any of them; one that is frozen is named,
// and holds up nobody for longer than patience.
func TestNode(t *testing.T) {
	all := onNode(t, "web-a", "web-b")
	frozen := peers.NewKey("web-frozen")
	listensAs(t, frozen)
	for i, c := range all {
		other := all[1-i]
		c.peers.Patience = time.Second
		url := c.served(t)
		shown := func(query string) (e Everything) {
			_, body := got(t, http.MethodGet, url+"/json"+query)
			if err := json.Unmarshal([]byte(body), &e); err != nil {
				t.Fatal(err)
			}
			return e
		}
		await.True(t, "both are shown, and the frozen one is named", func() bool {
			e := shown("?process=" + other.peers.Own)
			of, found := find(e, other.peers.Own)
			stuck, named := find(e, frozen)
			return found && of.Position == "of "+other.options.Pod && e.Shown.Pod == other.options.Pod && e.Problem == "" &&
				named && stuck.Pod == "web-frozen" && strings.Contains(stuck.Problem, "does not answer within 1s") && len(e.Shown.Rules) == 1
		})
		await.True(t, "one that does not answer is not shown, and it is said", func() bool {
			e := shown("?process=" + frozen)
			return e.Shown.Key != frozen && strings.Contains(e.Problem, "is not there, or does not answer")
		})
		_, page := got(t, http.MethodGet, url+"/?process="+other.peers.Own)
		if !strings.Contains(page, frozen[:10]) || !strings.Contains(page, "does not answer") {
			t.Errorf("the page is\n%s", page)
		}
	}
}

// TestOddPeers: whatever answers under the name of a proxy is shown as text, or as what is wrong with it, and all
// else is shown as without it.
func TestOddPeers(t *testing.T) {
	c := onNode(t, "web-z")[0]
	c.peers.Patience = 5 * time.Second
	// view answers in short as is to be expected.
	view := func(text string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/process" {
				io.WriteString(w, "{}")
				return
			}
			io.WriteString(w, text)
		}
	}
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		// problem is what is said of its answer in short, instead what is shown in the place of its view.
		problem, instead string
	}{
		"endless": {func(w http.ResponseWriter, _ *http.Request) { io.Copy(w, endless{}) }, peers.ErrTooMuch.Error(), ""},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }, "its answer cannot be read", ""},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, "it answers 302", ""},
		"an error":   {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, hostile[0], http.StatusTeapot) }, "it answers 418", ""},
		"other type": {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `[{"pod": 7}]`) }, "its answer cannot be read", ""},
		"hostile": {func(w http.ResponseWriter, _ *http.Request) {
			json.NewEncoder(w).Encode(View{Process: Process{Key: hostile[0], Pod: hostile[1], Version: hostile[2]}, NoAnswer: hostile[3]})
		}, "", ""},
		// Each of these is four bytes of HTML, and of the next six bytes of JSON.
		"too much":         {view(`{"noAnswer": "` + strings.Repeat(">", 4<<20) + `"}`), "", errTooMuch.Error()},
		"too much as JSON": {view(`{"noAnswer": "` + strings.Repeat("\u2028", 2_700_000) + `"}`), "", errTooMuch.Error()},
		// Each of these is hundreds of bytes in memory, also where it is of another type.
		"too many rules":   {view(`{"rules":[{}` + strings.Repeat(",{}", 2<<20) + `]}`), "", peers.ErrTooMuch.Error()},
		"too many numbers": {view(`{"rules":[0` + strings.Repeat(",0", 3<<20) + `]}`), "", peers.ErrTooMuch.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			key := peers.NewKey("web-a")
			s := &http.Server{Handler: http.HandlerFunc(test.answer)}
			l := listensAs(t, key)
			done := make(chan bool)
			go func() {
				defer close(done)
				s.Serve(l)
			}()
			defer func() {
				s.Close()
				<-done
			}()
			e := c.shown("?process=" + key)
			if p, found := find(e, key); !found || !strings.Contains(p.Problem, test.problem) || test.problem == "" && p.Problem != "" {
				t.Errorf("it is named as %+v, want %q", p, test.problem)
			}
			page := c.html(t, e)
			harmless(t, page)
			var b bounded
			if err := c.json(e)(&b); err != nil {
				t.Errorf("as JSON: %v", err)
			}
			if test.instead != "" && !strings.Contains(page+b.String(), test.instead) {
				t.Errorf("there is no %q in\n%.2000s", test.instead, page)
			}
			if own, found := find(e, c.peers.Own); !found || own.Problem != "" {
				t.Errorf("our own is %+v", own)
			}
		})
	}
}

// endless has no end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestNoSocketTable: where nobody can tell which others there are, that is said, and this one is shown.
func TestNoSocketTable(t *testing.T) {
	c := many(1).console(t)
	c.peers.Table = filepath.Join(t.TempDir(), "missing")
	e := c.shown("")
	if len(e.Processes) != 1 || e.Shown.Key != c.peers.Own || !strings.Contains(e.Problem, "looking for the other proxies") {
		t.Errorf("shown are %+v, %s", e.Processes, e.Problem)
	}
}

// TestOtherUsers are neither asked nor answered, nor named: they take nobody's place, however many listen.
func TestOtherUsers(t *testing.T) {
	all := onNode(t, "web-a", "web-b")
	all[0].peers.Patience = 5 * time.Second
	await.True(t, "they see each other", func() bool {
		p, found := find(all[0].shown(""), all[1].peers.Own)
		return found && p.Problem == ""
	})
	p := many(1)
	c := p.console(t)
	c.peers = peers.New("console", "web-c", 5*time.Second)
	c.peers.User++
	if p, found := find(c.shown(""), all[1].peers.Own); found {
		t.Errorf("one that asks for another user's is told %+v", p)
	}
	run(t, c.AnswerPeers)
	var said Process
	await.True(t, "it listens", func() bool {
		content, err := all[1].peers.Ask(t.Context(), c.peers.Own, "/process", maxProcess)
		_ = json.Unmarshal(content, &said)
		return err != nil && !strings.Contains(err.Error(), "connection refused")
	})
	if said.Pod != "" {
		t.Errorf("one that is asked by another user's says %+v", said)
	}
}

// TestManyPeers: as many are shown as may be, those first that answer, whatever their names.
func TestManyPeers(t *testing.T) {
	all := onNode(t, "web-y", "web-z")
	all[0].peers.Patience = 5 * time.Second
	for range peers.Most {
		l := listensAs(t, peers.NewKey("-"))
		done := make(chan bool)
		go func() {
			defer close(done)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Close()
			}
		}()
		t.Cleanup(func() {
			l.Close()
			<-done
		})
	}
	await.True(t, "the one that answers is shown", func() bool {
		e := all[0].shown("")
		p, found := find(e, all[1].peers.Own)
		return found && p.Problem == "" && len(e.Processes) == peers.Most+1
	})
}

// FuzzAnswer shows whatever a proxy answers as text.
func FuzzAnswer(f *testing.F) {
	c := many(1).console(f)
	fine, _ := json.Marshal(c.view(query{}))
	for _, seed := range []string{string(fine), "{}", "[]", "null", `{"answer": {}}`, `{"answer": {"rule": {}, "others": [{}]}}`, `{"from": -5, "all": -1}`,
		`{"pod": "<script>"}`, `{"time": "0001-01-01T00:00:00Z", "since": "9999-12-31T23:59:59Z"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		e := Everything{Processes: []Process{c.process()}}
		if json.Unmarshal(answer, &e.Shown) != nil || json.Unmarshal(answer, &e.Processes[0]) != nil {
			return
		}
		harmless(t, c.html(t, e))
	})
}
