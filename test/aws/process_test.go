package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/access"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/api"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// runs has the process of a test do Main.
const runs = "RUN_THE_EMULATOR"

func TestMain(m *testing.M) {
	if os.Getenv(runs) == "" {
		os.Exit(m.Run())
	}
	if err := Main(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// process is this program, as one that does Main.
func process() *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), runs+"=1")
	return cmd
}

func TestProcess(t *testing.T) {
	config := Config{
		Spec:   cloud.Spec{Seed: 1, Scale: 10},
		Listen: Listen{Admin: "unix:" + filepath.Join(t.TempDir(), "admin")},
		Access: access.Config{Users: []access.User{{Name: "admin", AccessKeyID: "AKIAADMIN", SecretKey: "admin-secret", Policy: everything}}},
	}
	p, err := StartProcess(process(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	f := &fixture{T: t, Server: &Server{Addresses: p.Addresses}, admin: NewClient(p.Admin)}
	identity, err := f.sts().GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	f.must(err)
	f.expect("who", *identity.Arn, "arn:aws:iam::123456789012:user/admin")
	calls, err := f.admin.Calls(t.Context(), 0)
	f.must(err)
	f.expect("calls", len(calls), 1)
	f.expect("principal", calls[0].Principal, *identity.Arn)
	p.Stop()
	if _, err := f.admin.Calls(t.Context(), 0); err == nil {
		t.Error("it goes on after it was stopped")
	}

	config.Scale = 20
	if _, err := StartProcess(process(), config); err == nil || !strings.Contains(err.Error(), "scale 20: must be 1 to 10") {
		t.Errorf("with a scale of 20: %v", err)
	}
}

// The configuration in README.md is one.
func TestTheExample(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```json\n")
	example, _, _ := strings.Cut(rest, "```")
	var config Config
	decoder := json.NewDecoder(strings.NewReader(example))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		t.Fatal(err)
	}
	if _, err := cloud.New(config.Spec, cloud.RealLags, time.Now()); err != nil {
		t.Error(err)
	}
	if _, err := access.New(config.Access); err != nil {
		t.Error(err)
	}
	if err := config.Limits.Validate(); err != nil || len(config.Limits) == 0 {
		t.Errorf("%d limits: %v", len(config.Limits), err)
	}
	if err := api.NewFaults(1).Set(config.Faults, time.Now()); err != nil || len(config.Faults) == 0 {
		t.Errorf("%d faults: %v", len(config.Faults), err)
	}
}
