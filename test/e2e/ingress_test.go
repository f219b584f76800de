package e2e

import (
	"context"
	"errors"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/docs"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

const ingressPage = "docs/guides/ingress.md"

// ingressSays is what command lines of the page must print, in a while: proxies are told of changes meanwhile. All
// must succeed.
var ingressSays = map[string]string{
	"kubectl ids rollout status proxy":                                                                          "successfully rolled out",
	`curl -so /dev/null -w "$SAY" http://$ADDRESS/`:                                                             "404",
	`curl -so /dev/null -w "$SAY" --resolve "*:80:$ADDRESS" http://cheddar.$ADDRESS.nip.io/`:                    "200 cheddar",
	`curl -so /dev/null -w "$SAY" --resolve "*:80:$ADDRESS" http://stilton.$ADDRESS.nip.io/`:                    "200 stilton",
	`curl -so /dev/null -w "$SAY" --resolve "*:80:$ADDRESS" http://wensleydale.$ADDRESS.nip.io/`:                "200 wensleydale",
	"kubectl events --for ingress/cheeseplate --types=Warning":                                                  `gives 25% to "wensleydale", which no path names; cheeseplate.`,
	`curl -so /dev/null -w "$SAY" -H 'Host: stilton.internal' http://$NODE:30081/`:                              "200 stilton",
	`curl -so /dev/null -w "$SAY" -H 'Host: stilton.internal' http://$NODE/`:                                    "404",
	`kubectl get ingress classless -o jsonpath='{.spec.ingressClassName}{"\n"}'`:                                "proxy",
	`curl -so /dev/null -w "$SAY" -H 'Host: old.example.com' http://$NODE:30081/`:                               "200 wensleydale",
	`curl -so /dev/null -w "$SAY" --cacert tls.crt --resolve "*:443:$ADDRESS" https://cheddar.$ADDRESS.nip.io/`: "200 cheddar",
	"kubectl events --for ingress/cheddar --types=Warning":                                                      "does not exist: its last good certificate is presented",
	"kubectl ids routes cheeseplate.$ADDRESS.nip.io /":                                                          "default/wensleydale:80",
	"kubectl port-forward $(kubectl get pods -l app=proxy -o name | head -n 1) 9080":                            "default/wensleydale:80",
	"kubectl get gatewayclass,gateway,httproute":                                                                "True",
}

// plates are what came back of a hundred requests, in percent, each time that the page asks for so many.
var plates = []map[string]int{
	{"200 cheddar": 50, "200 stilton": 25, "503": 25},
	{"200 cheddar": 50, "200 stilton": 25, "200 wensleydale": 25},
	{"200 cheddar": 80, "200 wensleydale": 20},
	{"200 cheddar": 50, "200 stilton": 25, "200 wensleydale": 25},
}

// TestDocumentedIngress follows docs/guides/ingress.md from its first line to its last. docs.Instead says which lines
// are replaced.
func TestDocumentedIngress(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patient)
	defer cancel()
	u := newReader(t)
	t.Cleanup(u.removeCheese)
	u.shorten("examples/proxy.yaml")
	u.shorten("examples/proxy-internal.yaml")
	plugin, err := theHarness.BuildTool(ctx, "./cmd/kubectl-ids")
	if err := errors.Join(err, os.Symlink(plugin, filepath.Join(u.Bin, "kubectl-ids"))); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, line := range docs.PlayedCommands(ingressPage, string(readFile(t, filepath.Join(root, ingressPage)))) {
		begun := time.Now()
		says := func(said string) error { return contains(said, ingressSays[line]) }
		if strings.Contains(line, "?[1-100]") && asked < len(plates) {
			plate := plates[asked]
			says, asked = func(said string) error { return shares(said, plate) }, asked+1
		}
		u.enterUntil(ctx, line, says)
		t.Logf("%4.0f s  %s", time.Since(begun).Seconds(), line)
	}
	if asked != len(plates) {
		t.Errorf("the page asks %d times for a plate", asked)
	}
	u.showsCheddar()
}

// enterUntil runs a line until what it prints is right. Those that are not right at once only ask.
func (u *reader) enterUntil(ctx context.Context, line string, says func(string) error) {
	u.Helper()
	ctx, cancel := context.WithTimeout(ctx, patient/2)
	defer cancel()
	var wrong error
	if err := harness.Wait(ctx, line, func() (bool, error) {
		wrong = says(u.enter(ctx, line))
		return wrong == nil, nil
	}); err != nil {
		u.Errorf("%v: %v", err, wrong)
	}
}

func contains(said, want string) error {
	if !strings.Contains(said, want) {
		return fmt.Errorf("it does not say %q but\n%s", want, said)
	}
	return nil
}

// counted is a line of uniq -c: a number, and what came so often.
var counted = regexp.MustCompile(`(?m)^ *(\d+) (.*?) *$`)

// shares is an error where other answers came than wanted, or of one not as many: a proxy that takes turns is near by one.
func shares(said string, want map[string]int) error {
	const near = 1
	found := counted.FindAllStringSubmatch(said, -1)
	for _, line := range found {
		n, err := strconv.Atoi(line[1])
		if err != nil || n < want[line[2]]-near || n > want[line[2]]+near {
			return fmt.Errorf("%s of 100 say %q, want %d:\n%s", line[1], line[2], want[line[2]], said)
		}
	}
	if len(found) != len(want) {
		return fmt.Errorf("it says\n%sand is to say %v", said, want)
	}
	return nil
}

// showsCheddar looks for the picture's colour on what the browser drew.
func (u *reader) showsCheddar() {
	u.Helper()
	file, err := os.Open(filepath.Join(u.Dir, "cheddar.png"))
	if err != nil {
		u.Fatal(err)
	}
	defer file.Close()
	drawn, err := png.Decode(file)
	if err != nil {
		u.Fatal(err)
	}
	size, cheddar := drawn.Bounds(), 0
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			if r, g, b, _ := drawn.At(x, y).RGBA(); r>>8 == 0xef && g>>8 == 0x8e && b>>8 == 0x19 {
				cheddar++
			}
		}
	}
	if all := size.Dx() * size.Dy(); cheddar < all/20 {
		u.Errorf("%d of %d dots have the colour of cheddar", cheddar, all)
	}
}

// removeCheese is for a walk that was cut short, and for what the page leaves to others.
func (u *reader) removeCheese() {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	u.must(ctx, "kubectl delete ids --all --ignore-not-found")
	u.must(ctx, "kubectl delete ingress,ingressclass --all")
	u.must(ctx, "kubectl delete deployment,service cheddar stilton wensleydale hello internal --ignore-not-found")
	u.must(ctx, "kubectl delete -f $(go list -m -f {{.Dir}} sigs.k8s.io/gateway-api)/config/crd/standard --ignore-not-found")
}
