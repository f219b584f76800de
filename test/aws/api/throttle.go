package api

import (
	"fmt"
	"time"
)

// Bucket is a token bucket: Capacity calls at once, and Refill more a second. These are
// not scaled. A capacity below 0 is no limit.
type Bucket struct {
	Capacity float64 `json:"capacity"`
	Refill   float64 `json:"refill"`
}

// Limits are the buckets of the classes of actions. Each class has one for the account.
type Limits map[string]Bucket

// Classes of actions. Each version of the API has buckets of its own.
const (
	reading            = "v2 Describe"
	registering        = "v2 Register"
	classicReading     = "classic Describe"
	classicRegistering = "classic Register"
)

// Those of version 2 are documented; see the README.
var standardLimits = Limits{
	reading: {40, 10}, registering: {20, 4}, classicReading: {40, 10}, classicRegistering: {20, 4},
}

// Validate refuses classes that there are not.
func (l Limits) Validate() error {
	for class := range l {
		if _, found := standardLimits[class]; !found {
			return fmt.Errorf("limits: there is no class %q", class)
		}
	}
	return nil
}

// SetLimits changes the buckets, which are then full. What is not named is as AWS's.
func (s *Server) SetLimits(limits Limits) error {
	if err := limits.Validate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits, s.buckets = limits.withDefaults(), map[string]*bucket{}
	return nil
}

func (l Limits) withDefaults() Limits {
	all := Limits{}
	for class, b := range standardLimits {
		if set, found := l[class]; found {
			b = set
		}
		all[class] = b
	}
	return all
}

type bucket struct {
	tokens float64
	at     time.Time
}

// admit takes a token for a call.
func (s *Server) admit(class string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit, found := s.limits[class]
	if !found || limit.Capacity < 0 {
		return true
	}
	b := s.buckets[class]
	if b == nil {
		b = &bucket{limit.Capacity, now}
		s.buckets[class] = b
	}
	b.tokens = min(limit.Capacity, b.tokens+limit.Refill*now.Sub(b.at).Seconds())
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
