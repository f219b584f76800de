package controller

import (
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"
)

// forEach calls f for each name, so many at a time, and joins all errors.
func forEach(names []string, atATime int, f func(string) error) error {
	var (
		group errgroup.Group
		mu    sync.Mutex
		errs  []error
	)
	group.SetLimit(atATime)
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
