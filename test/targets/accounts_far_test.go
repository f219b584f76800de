package targets

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/access"
	awsapi "github.com/mumoshu/ingress-daemonset-controller/test/aws/api"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

const (
	// farAccount is the other account, farRole as whom it is reached.
	farAccount = "210987654321"
	farRole    = "arn:aws:iam::" + farAccount + ":role/targets"
	// failing is what names of target groups begin with in which nothing can be registered.
	failing = "failing-"
)

// accounts are where the controller reaches its own account and another one: calls go to the server of
// the account whose credentials they have.
type accounts struct {
	server    *httptest.Server
	rolesFile string
	far       *aws.Server
	// closed says whether nothing of the other account can be read, refused how many registrations were.
	closed  atomic.Bool
	refused atomic.Int32

	mu sync.Mutex
	// keys are those of the other account that were given out.
	keys map[string]bool
}

// startAccounts starts the other account, with the same machines.
func startAccounts(ctx context.Context, dir string, machines []cloud.Instance) (*accounts, error) {
	everything := json.RawMessage(`{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}`)
	far, err := aws.Start(ctx, aws.Config{
		Spec: cloud.Spec{
			Seed: 2, Scale: 10, Region: region, Account: farAccount, Instances: machines,
			VPC: cloud.VPC{Subnets: []cloud.Subnet{{CIDR: netip.MustParsePrefix("10.0.0.0/8"), Zone: zone}}},
		},
		Access: access.Config{
			Users: []access.User{
				{Name: "controller", AccessKeyID: "AKIACONTROLLER", SecretKey: "controller-secret", Policy: everything},
				{Name: "terraform", AccessKeyID: "AKIATERRAFORM", SecretKey: "terraform-secret", Policy: everything},
			},
			Roles: []access.Role{{Name: "targets", Policy: everything, Principals: []string{"*"}, TagSession: true}},
		},
		Limits: awsapi.Limits{"v2 Describe": {Capacity: -1}},
	})
	if err != nil {
		return nil, err
	}
	a := &accounts{far: far, rolesFile: filepath.Join(dir, "roles.yaml"), keys: map[string]bool{}}
	a.server = httptest.NewServer(a.proxy())
	return a, os.WriteFile(a.rolesFile, []byte("roles: [{arn: "+farRole+"}]\n"), 0o600)
}

func (a *accounts) stop() {
	a.server.Close()
	a.far.Stop()
}

var (
	usedKey  = regexp.MustCompile(`Credential=([A-Z0-9]+)/`)
	givenKey = regexp.MustCompile(`<AccessKeyId>([A-Z0-9]+)</AccessKeyId>`)
)

// proxy sends each call on as it was signed.
func (a *accounts) proxy() http.Handler {
	own, far := forward(theCloud), forward(a.far)
	far.ModifyResponse = a.noteKeys
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		form, err := formOf(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		action, to := form.Get("Action"), own
		if a.isFar(r, form) {
			to = far
		}
		switch {
		case to == far && a.closed.Load() && strings.HasPrefix(action, "Describe"):
			refuse(w, "AccessDenied")
		case action == "RegisterTargets" && strings.Contains(form.Get("TargetGroupArn"), ":targetgroup/"+failing):
			a.refused.Add(1)
			refuse(w, "OperationNotPermitted")
		default:
			to.ServeHTTP(w, r)
		}
	})
}

// forward sends calls on to a server under the name that they were signed for.
func forward(to *aws.Server) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", to.API, r.In.Host
		},
		// Who is killed in the middle of a call gets no answer.
		ErrorLog: log.New(io.Discard, "", 0),
	}
}

func refuse(w http.ResponseWriter, code string) {
	w.WriteHeader(http.StatusForbidden)
	fmt.Fprintf(w, `<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>refused</Message></Error><RequestId>0</RequestId></ErrorResponse>`, code)
}

// formOf reads the parameters of a call, which can be read again.
func formOf(r *http.Request) (url.Values, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return url.ParseQuery(string(body))
}

// isFar reports whether a call is for the other account: by its credentials, or by the role that it asks for.
func (a *accounts) isFar(r *http.Request, form url.Values) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	used := usedKey.FindStringSubmatch(r.Header.Get("Authorization"))
	return form.Get("RoleArn") == farRole || used != nil && a.keys[used[1]]
}

// noteKeys notes credentials that the other account gives out.
func (a *accounts) noteKeys(r *http.Response) error {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, given := range givenKey.FindAllSubmatch(body, -1) {
		a.keys[string(given[1])] = true
	}
	return err
}
