package aws

import (
	"maps"
	"sync"
	"time"
)

// memory keeps attributes, which change seldom and cost a call each. What was read
// before a call failed is kept, so that throttling does not begin an inventory all
// over.
type memory struct {
	lasts time.Duration

	mu      sync.Mutex
	entries map[string]entry
}

type entry struct {
	attributes map[string]string
	readAt     time.Time
}

func newMemory(lasts time.Duration) *memory {
	if lasts == 0 {
		lasts = defaultAttributesFor
	}
	return &memory{lasts: lasts, entries: map[string]entry{}}
}

// get is what is remembered, unless it is out of date, and otherwise what read returns.
func (m *memory) get(key string, read func() (map[string]string, error)) (map[string]string, error) {
	m.mu.Lock()
	e, ok := m.entries[key]
	m.mu.Unlock()
	if ok && time.Since(e.readAt) < m.lasts {
		return e.attributes, nil
	}
	attributes, err := read()
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[key] = entry{attributes, time.Now()}
	return attributes, nil
}

// forget drops what is out of date. After all groups were read, that is what belongs
// to groups that are gone.
func (m *memory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.entries, func(_ string, e entry) bool { return time.Since(e.readAt) >= m.lasts })
}
