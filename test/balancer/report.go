package balancer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Report is what all cases have cost.
type Report struct {
	Cases []Result `json:"cases"`
	// Beside are the cases that lose requests, as is to be expected.
	Beside []Result `json:"beside,omitempty"`
}

// Add adds the result of a case.
func (r *Report) Add(c Case, result Result) {
	if c.Loses {
		r.Beside = append(r.Beside, result)
		return
	}
	r.Cases = append(r.Cases, result)
}

// Write writes it as JSON.
func (r Report) Write(file string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

// Err is an error where a case lost a request or moved nothing, and where
// one that stands beside another lost nothing, so that neither proves anything.
func (r Report) Err() error {
	var errs []error
	for _, c := range r.Cases {
		switch {
		case c.Failed > 0:
			errs = append(errs, fmt.Errorf("%s: %d of %d requests failed", c.Name, c.Failed, c.Requests))
		case c.Moves == 0:
			errs = append(errs, fmt.Errorf("%s: no target moved, so that it proves nothing", c.Name))
		}
	}
	for _, c := range r.Beside {
		if c.Failed == 0 {
			errs = append(errs, fmt.Errorf("%s: no request failed, so that what stands beside it proves nothing", c.Name))
		}
	}
	return errors.Join(errs...)
}

// Print shows it as a table.
func (r Report) Print(out io.Writer) {
	fmt.Fprintf(out, "  %-26s %10s %8s %7s %9s\n", "", "requests", "failed", "moves", "seconds")
	for _, list := range [][]Result{r.Cases, r.Beside} {
		for _, c := range list {
			fmt.Fprintf(out, "  %-26s %10d %8d %7d %9.0f\n", c.Name, c.Requests, c.Failed, c.Moves, c.Took.Seconds())
		}
	}
}
