package overload

import (
	"strings"
	"testing"
)

// over is a trend of n measurements, each a function of its number.
func over(n int, at func(i int) Vitals) Trend {
	var s Trend
	for i := range n {
		s = append(s, at(i))
	}
	return s
}

func TestALeakIsNotFlat(t *testing.T) {
	still := Vitals{RSS: 80 * mib, Own: 60 * mib, Heap: 10 * mib, Stored: 5 * mib, Goroutines: 100, FDs: 60}
	for name, test := range map[string]struct {
		trend Trend
		grown string
	}{
		"nothing moves": {trend: over(12, func(int) Vitals { return still })},
		"a sawtooth": {trend: over(12, func(i int) Vitals {
			v := still
			v.Heap += int64(i%4) * 2 * mib
			return v
		})},
		"only the warm-up grows": {trend: over(12, func(i int) Vitals {
			v := still
			v.Own += int64(min(i, 4)) * 100 * mib
			return v
		})},
		"the heap leaks": {grown: "the heap", trend: over(12, func(i int) Vitals {
			v := still
			v.Heap += int64(i) * 3 * mib
			return v
		})},
		"memory leaks": {grown: "its own memory", trend: over(12, func(i int) Vitals {
			v := still
			v.RSS += int64(i) * 20 * mib
			v.Own += int64(i) * 20 * mib
			return v
		})},
		"more of a file is mapped": {trend: over(12, func(i int) Vitals {
			v := still
			v.RSS += int64(i) * 20 * mib
			return v
		})},
		"the store keeps everything": {grown: "the store", trend: over(60, func(i int) Vitals {
			v := still
			v.Stored += int64(i) * mib
			return v
		})},
		"goroutines leak": {grown: "goroutines", trend: over(12, func(i int) Vitals {
			v := still
			v.Goroutines += i * 40
			return v
		})},
		"descriptors leak": {grown: "descriptors", trend: over(12, func(i int) Vitals {
			v := still
			v.FDs += i * 20
			return v
		})},
		"too few to tell": {grown: "only 5", trend: over(5, func(int) Vitals { return still })},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(test.trend.Grown(), "; ")
			if test.grown == "" && got != "" || !strings.HasPrefix(got, test.grown) {
				t.Errorf("%q, want %q", got, test.grown)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	v := Vitals{RSS: 10, Heap: 20, Stored: 30, Goroutines: 40, FDs: 50}
	if !v.bounded(v) || !v.bounded(Vitals{}) {
		t.Error("what is no more than its bound exceeds it")
	}
	for _, tight := range []Vitals{{RSS: 9}, {Heap: 19}, {Stored: 29}, {Goroutines: 39}, {FDs: 49}} {
		if v.bounded(tight) {
			t.Errorf("%v is within %v", v, tight)
		}
	}
}

func TestATrendTellsItsStartMiddleAndEnd(t *testing.T) {
	s := over(3, func(i int) Vitals {
		return Vitals{RSS: int64(i) * mib, Own: int64(i) * mib / 2, Heap: int64(i) * mib / 2, Stored: int64(i) * mib}
	})
	if got, want := s.String(), "RSS 0/1/2 MiB (its own 0/0/1), heap 0.0/0.5/1.0 MiB, store 0.0/1.0/2.0 MiB"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (Trend{}).String(); got != "not measured" {
		t.Errorf("%q", got)
	}
	if got, want := s.Most().String(), "RSS 2 MiB, heap 1.0 MiB, 0 goroutines, 0 descriptors, store 2.0 MiB"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
