package subscription

import (
	"context"
	"time"
)

// snapshotEvery is how much time is between two snapshots at least.
const snapshotEvery = time.Second

// Restore applies the last snapshot, if there is one, and says whether there is. What of it cannot be used
// is refused alone, as on a stream.
func (s *Subscription) Restore() bool {
	if s.options.Directory == "" {
		return false
	}
	if set := s.files.readSet(); set != "" {
		s.set.Store(&set)
	}
	held, found := s.files.read()
	if found {
		s.sayRefused(s.take(held))
	}
	return found
}

// saveSet keeps whose the proxy is for the next process.
func (s *Subscription) saveSet(set string) {
	if s.options.Directory == "" {
		return
	}
	if err := writeSecret(s.files.setPath(), []byte(set)); err != nil {
		s.options.Log.Warn("whose proxy this is cannot be kept for its next start", "error", err)
	}
}

// save has a snapshot written soon.
func (s *Subscription) save() {
	select {
	case s.unsaved <- struct{}{}:
	default:
	}
}

// keepSnapshot writes snapshots until the context ends, and then what is not written yet.
func (s *Subscription) keepSnapshot(ctx context.Context) {
	if s.options.Directory == "" {
		return
	}
	for ctx.Err() == nil {
		select {
		case <-s.unsaved:
			s.writeSnapshot()
		case <-ctx.Done():
		}
		select {
		case <-time.After(snapshotEvery):
		case <-ctx.Done():
		}
	}
	select {
	case <-s.unsaved:
		s.writeSnapshot()
	default:
	}
}

// writeSnapshot writes one, or has that tried again.
func (s *Subscription) writeSnapshot() {
	s.mu.Lock()
	held := s.holdings.All()
	s.mu.Unlock()
	err := s.files.write(held)
	if err == nil {
		s.saidUnsaved = ""
		return
	}
	if err.Error() != s.saidUnsaved {
		s.options.Log.Error("the snapshot is not written, the one before stays", "error", err)
	}
	s.saidUnsaved = err.Error()
	s.save()
}
