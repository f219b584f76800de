package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/balancer"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
)

type options struct {
	balancer.Options
	only   string
	report string
	keep   bool
}

func moveTargets(ctx context.Context, args []string) error {
	o := options{Options: balancer.Options{Log: os.Stdout}}
	flags := flag.NewFlagSet("balancer", flag.ContinueOnError)
	flags.StringVar(&o.Dir, "dir", ".cluster", "the cluster's folder")
	flags.Float64Var(&o.Scale, "scale", 10, "AWS's times are divided by it, 1 to 10")
	flags.Uint64Var(&o.Seed, "seed", 0, "seed of all draws; 0 draws one")
	flags.StringVar(&o.only, "case", "", "run this case only")
	flags.StringVar(&o.report, "report", "demo-aws-report.json", "name of the report, a file in the cluster's folder")
	flags.BoolVar(&o.keep, "keep", false, "leave the cluster running at the end")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil, flags.NArg() > 0:
		return errUsage
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano())
	}
	switch {
	case runtime.GOOS != "linux":
		return fmt.Errorf("this is %s, and real nodes need Linux", runtime.GOOS)
	case os.Geteuid() != 0:
		return errors.New("real nodes need root: run `make demo-aws` as root")
	case !(o.Scale >= 1 && o.Scale <= 10):
		return fmt.Errorf("-scale %g: must be 1 to 10", o.Scale)
	}
	cases, err := selected(o.only)
	if err != nil {
		return err
	}
	return runAll(ctx, o, cases)
}

func selected(only string) ([]balancer.Case, error) {
	if only == "" {
		return balancer.Cases(), nil
	}
	var names []string
	for _, c := range balancer.Cases() {
		if c.Name == only {
			return []balancer.Case{c}, nil
		}
		names = append(names, c.Name)
	}
	return nil, fmt.Errorf("-case %s: must be one of %v", only, names)
}

// runAll runs the cases and writes the report, whatever it says.
func runAll(ctx context.Context, o options, cases []balancer.Case) (err error) {
	file := filepath.Join(o.Dir, o.report)
	if err := os.RemoveAll(file); err != nil {
		return err
	}
	heading("A cluster of real nodes behind a network load balancer, whose times are divided by %g", o.Scale)
	fixture, err := balancer.SetUp(ctx, o.Options)
	defer func() { err = errors.Join(err, end(ctx, o)) }()
	if err != nil {
		return err
	}
	defer fixture.Close()
	var report balancer.Report
	var failed error
	for _, c := range cases {
		heading("%s: %s", c.Name, c.What)
		result, err := fixture.Run(ctx, c)
		if result.Story != "" && !c.Loses {
			fmt.Printf("%s\n%s\n", result.Story, result.Report)
		}
		if err != nil {
			failed = fmt.Errorf("%s: %w", c.Name, err)
			break
		}
		fmt.Printf("%d of %d requests failed, %d targets moved\n", result.Failed, result.Requests, result.Moves)
		report.Add(c, result)
	}
	heading("What it has cost")
	report.Print(os.Stdout)
	if err := report.Write(file); err != nil {
		return errors.Join(failed, err)
	}
	fmt.Printf("\nThe counts are in %s.\n", file)
	return errors.Join(failed, report.Err())
}

// end takes the cluster down, unless it is to be kept. The load balancer ends with us.
func end(ctx context.Context, o options) error {
	if o.keep && ctx.Err() == nil {
		fmt.Printf("\nThe cluster runs on, without its load balancer: export KUBECONFIG=%s. `make cluster-down` takes it down.\n", filepath.Join(o.Dir, "kubeconfig"))
		return nil
	}
	fmt.Println("\ntaking the cluster down; with KEEP=1 it is left running")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return cluster.Down(ctx, o.Dir)
}

func heading(format string, args ...any) {
	fmt.Printf("\n== "+format+"\n", args...)
}
