package controller

import (
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"
)

// forEach calls f for each name, several at a time, and joins all errors.
func forEach(names []string, f func(string) error) error {
	var (
		group errgroup.Group
		mu    sync.Mutex
		errs  []error
	)
	group.SetLimit(parallelWrites)
	for _, name := range names {
		group.Go(func() error {
			if err := f(name); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}
