package balance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"pgregory.net/rapid"
)

// sharesOf are shares of backends a, b, c, … with these weights.
func sharesOf(weights ...uint32) (out []wire.Share) {
	for i, w := range weights {
		out = append(out, wire.Share{Backend: string(rune('a' + i)), Weight: w})
	}
	return out
}

// checkWindows lets the first share have want requests of each window of so many, or one more or less.
func checkWindows(t rapid.TB, chosen []int, window, want int) {
	t.Helper()
	got := 0
	for i, c := range chosen {
		if c == 0 {
			got++
		}
		if i >= window && chosen[i-window] == 0 {
			got--
		}
		if i >= window-1 && (got < want-1 || got > want+1) {
			t.Fatalf("requests %d to %d: the share got %d, want %d", i-window+1, i, got, want)
		}
	}
}

func take(w *Weights, n int) (chosen []int) {
	for range n {
		chosen = append(chosen, w.Choose())
	}
	return chosen
}

func TestElevenOfAHundred(t *testing.T) {
	for start := range uint64(300) {
		var w Weights
		w.Set(sharesOf(11, 89), start)
		checkWindows(t, take(&w, 1000), 100, 11)
	}
}

// TestEachWindowHasItsShare: as many requests in a row as all weights together give each share its
// weight, or one more or less, wherever they begin.
func TestEachWindowHasItsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Uint32Range(0, 60), 1, 8).Draw(t, "weights")
		weights[0]++
		total := 0
		for _, w := range weights {
			total += int(w)
		}
		var w Weights
		w.Set(sharesOf(weights...), rapid.Uint64().Draw(t, "start"))
		chosen := take(&w, 5*total)
		for i, weight := range weights {
			only := make([]int, len(chosen))
			for at, c := range chosen {
				if weight == 0 && c == i {
					t.Fatalf("share %d has no weight, and got request %d", i, at)
				}
				if c != i {
					only[at] = 1
				}
			}
			checkWindows(t, only, total, int(weight))
		}
	})
}

// TestWindowsOutliveChangesOfOthers: the share that keeps its 11 of 100 sees nothing of what the other
// ones do among themselves, come and go included.
func TestWindowsOutliveChangesOfOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w Weights
		var chosen []int
		mine := rapid.IntRange(1, 60).Draw(t, "mine")
		for range 20 {
			weights := []uint32{uint32(mine)}
			rest := 100 - mine
			for range rapid.IntRange(0, 4).Draw(t, "others") {
				part := rapid.IntRange(0, rest).Draw(t, "weight")
				weights, rest = append(weights, uint32(part)), rest-part
			}
			w.Set(sharesOf(append(weights, uint32(rest))...), 7)
			chosen = append(chosen, take(&w, rapid.IntRange(0, 150).Draw(t, "requests"))...)
		}
		checkWindows(t, chosen, 100, mine)
	})
}

// TestSetAgainChangesNothing: what is set at each change of endpoints must not begin the cycle anew.
func TestSetAgainChangesNothing(t *testing.T) {
	var once, often Weights
	once.Set(sharesOf(3, 5, 11), 5)
	for i := range 500 {
		often.Set(sharesOf(3, 5, 11), 5+uint64(i))
		if a, b := once.Choose(), often.Choose(); a != b {
			t.Fatalf("request %d goes to %d instead of %d", i, b, a)
		}
	}
}

// TestScaledWeightsAreTheSame: 110/890 goes on where 11/89 was.
func TestScaledWeightsAreTheSame(t *testing.T) {
	var w Weights
	var chosen []int
	for i := range 50 {
		scale := uint32(1 + 9*(i%2))
		w.Set(sharesOf(11*scale, 89*scale), 3)
		chosen = append(chosen, take(&w, 37)...)
	}
	checkWindows(t, chosen, 100, 11)
}

func TestLagsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w Weights
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			w.Set(sharesOf(rapid.SliceOfN(rapid.Uint32(), 0, 16).Draw(t, "weights")...), rapid.Uint64().Draw(t, "start"))
			take(&w, rapid.IntRange(0, 20).Draw(t, "requests"))
			var sum int64
			for _, s := range w.shares {
				sum += s.lag
				if s.lag > 4*w.total || s.lag < -4*w.total {
					t.Fatalf("a share has earned %d of %d", s.lag, w.total)
				}
			}
			if sum != 0 {
				t.Fatalf("all have earned %d more than there was", sum)
			}
		}
	})
}

func TestChooseWithoutWeight(t *testing.T) {
	var w Weights
	for _, shares := range [][]wire.Share{nil, sharesOf(0), sharesOf(0, 0)} {
		w.Set(shares, 1)
		if got := w.Choose(); got != -1 {
			t.Errorf("%v: share %d is chosen", shares, got)
		}
	}
	w.Set(sharesOf(0, 1, 0), 1)
	if got := take(&w, 3); !slices.Equal(got, []int{1, 1, 1}) {
		t.Errorf("chosen are %v", got)
	}
}

// TestStartIsRandom: many proxies that start at once do not all begin with the same share, and each
// share's first request is where its weight says.
func TestStartIsRandom(t *testing.T) {
	for _, weights := range [][]uint32{{11, 89}, {1, 999_999}, {50, 25, 25}} {
		const starts = 10_000
		first := make([]int, len(weights))
		var total uint32
		for start := range uint64(starts) {
			var w Weights
			w.Set(sharesOf(weights...), start)
			first[w.Choose()]++
		}
		for _, weight := range weights {
			total += weight
		}
		for i, weight := range weights {
			want := starts * float64(weight) / float64(total)
			if got := float64(first[i]); got < want*0.9-5 || got > want*1.1+5 {
				t.Errorf("%v: %v of %d begin with share %d, want about %v", weights, got, starts, i, want)
			}
		}
	}
}

// TestSameBackendTwice: shares of one backend, with filters of their own, are told apart by their order.
func TestSameBackendTwice(t *testing.T) {
	two := []wire.Share{{Backend: "a", Weight: 1}, {Backend: "a", Weight: 3}, {Weight: 4}}
	var w Weights
	w.Set(two, 9)
	got := map[int]int{}
	for i := range 80 {
		if i%10 == 0 {
			two[2].Weight ^= 1
			w.Set(two, 1)
		}
		got[w.Choose()]++
	}
	if got[0] < 8 || got[0] > 12 || got[1] < 27 || got[1] > 33 {
		t.Errorf("requests are shared %v", got)
	}
}

func BenchmarkWeights(b *testing.B) {
	for _, n := range []int{1, 2, 16} {
		weights := []uint32{11}
		for i := range n - 1 {
			weights = append(weights, uint32(89+i))
		}
		b.Run(fmt.Sprintf("choose-of-%d", n), func(b *testing.B) {
			var w Weights
			w.Set(sharesOf(weights...), 1)
			for b.Loop() {
				w.Choose()
			}
		})
		b.Run(fmt.Sprintf("set-%d", n), func(b *testing.B) {
			shares := sharesOf(weights...)
			var w Weights
			for i := uint32(0); b.Loop(); i++ {
				shares[0].Weight = 1 + i%7
				w.Set(shares, 1)
			}
		})
	}
}
