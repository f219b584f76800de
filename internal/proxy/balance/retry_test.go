package balance

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAgain(t *testing.T) {
	const second = time.Second
	for _, test := range []struct {
		name string
		try  Try
		want Verdict
	}{
		{"refused", Try{NotConnected, "GET", true, 0, 0}, Free},
		{"refused, POST", Try{NotConnected, "POST", true, 0, 0}, Free},
		{"refused, body begun", Try{NotConnected, "POST", false, 0, 0}, Never},
		{"refused, after two retries", Try{NotConnected, "GET", true, 2, 0}, Free},
		{"refused, just in time", Try{NotConnected, "GET", true, 0, 3*second - 1}, Free},
		{"refused, too late", Try{NotConnected, "GET", true, 0, 3 * second}, Never},
		{"not written, POST", Try{NotWritten, "POST", true, 0, second}, Free},
		{"not written, too late", Try{NotWritten, "POST", true, 0, 4 * second}, Never},
		{"GET", Try{NoResponse, "GET", true, 0, 0}, Budgeted},
		{"HEAD", Try{NoResponse, "HEAD", true, 0, 0}, Budgeted},
		{"OPTIONS", Try{NoResponse, "OPTIONS", true, 0, 0}, Budgeted},
		{"PUT", Try{NoResponse, "PUT", true, 0, 0}, Budgeted},
		{"DELETE", Try{NoResponse, "DELETE", true, 0, 0}, Budgeted},
		{"GET, much later", Try{NoResponse, "GET", true, 1, 9 * second}, Budgeted},
		{"GET, the third time", Try{NoResponse, "GET", true, 2, 0}, Never},
		{"PUT, body not kept", Try{NoResponse, "PUT", false, 0, 0}, Never},
		{"POST", Try{NoResponse, "POST", true, 0, 0}, Never},
		{"PATCH", Try{NoResponse, "PATCH", true, 0, 0}, Never},
		{"TRACE", Try{NoResponse, "TRACE", true, 0, 0}, Never},
		{"get", Try{NoResponse, "get", true, 0, 0}, Never},
		{"another method", Try{NoResponse, "PURGE", true, 0, 0}, Never},
		{"answered", Try{Answered, "GET", true, 0, 0}, Never},
	} {
		if got := Again(test.try); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func TestBudget(t *testing.T) {
	var b Budget
	permitted := func(at float64, tries int) (n int) {
		for range tries {
			if b.Retry(after(at)) {
				n++
			}
		}
		return n
	}
	if got := permitted(0, 20); got != 10 {
		t.Errorf("%d retries are permitted without a request, want 10", got)
	}
	for range 100 {
		b.Request(after(1))
	}
	if got := permitted(2, 20); got != 10 {
		t.Errorf("%d more are permitted of 100 requests, want 10 (20%% in all)", got)
	}
	if got := permitted(9.9, 20); got != 0 {
		t.Errorf("%d more are permitted within 10 seconds, want none", got)
	}
	if got := permitted(10.5, 20); got != 10 {
		t.Errorf("%d more are permitted when the first 10 were more than 10 seconds ago, want 10", got)
	}
	if got := permitted(1003, 20); got != 10 {
		t.Errorf("%d are permitted much later, want 10", got)
	}
}

// TestBudgetBounds: of any requests, whenever they come, never more are tried again in 9 seconds than
// 20% of those of the last 10, or 10.
func TestBudgetBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Budget
		var requests, retries []time.Time
		now := noon
		within := func(all []time.Time, d time.Duration) (n int) {
			for _, at := range all {
				if now.Sub(at) < d {
					n++
				}
			}
			return n
		}
		for range 150 {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 10, 300, 900, 12_000}).Draw(t, "ms")) * time.Millisecond)
			for range rapid.IntRange(0, 10).Draw(t, "requests") {
				b.Request(now)
				requests = append(requests, now)
			}
			for range rapid.IntRange(0, 4).Draw(t, "retries") {
				inLast := within(retries, 9*time.Second)
				may := b.Retry(now)
				if most := max(10, within(requests, 10*time.Second)/5); may && inLast >= most {
					t.Fatalf("retry %d of %d is permitted", inLast+1, most)
				}
				if least := max(10, within(requests, 9*time.Second)/5); !may && within(retries, 10*time.Second) < least {
					t.Fatalf("no retry is permitted, of %d", least)
				}
				if may {
					retries = append(retries, now)
				}
			}
		}
	})
}

// TestBudgetClockBackwards: callers read the clock before they wait for the lock.
func TestBudgetClockBackwards(t *testing.T) {
	var b Budget
	b.Request(after(0))
	b.Request(after(-100))
	b.Request(after(30))
	for range 100 {
		b.Request(after(29.9))
	}
	if n := retries(&b, 30); n != 20 {
		t.Errorf("%d retries are permitted of 101 requests", n)
	}
}

// retries are how many are permitted then.
func retries(b *Budget, at float64) (n int) {
	for b.Retry(after(at)) {
		n++
	}
	return n
}

// TestBudgetOfLateCallers: a caller that read the clock in the second before takes nothing from what was counted in it.
func TestBudgetOfLateCallers(t *testing.T) {
	var b Budget
	b.Request(after(0))
	for _, at := range []float64{10.9, 11.1} {
		for range 100 {
			b.Request(after(at))
		}
	}
	b.Request(after(10.95))
	if n := retries(&b, 11.2); n != 40 {
		t.Errorf("%d retries are permitted of 201 requests", n)
	}
}

func BenchmarkBudget(b *testing.B) {
	var budget Budget
	for b.Loop() {
		budget.Request(noon)
	}
}
