package overload

import (
	"fmt"
	"slices"
)

// Vitals are what a sidecar takes up at an instant.
type Vitals struct {
	// RSS, Own, Heap and Stored are bytes. Own is RSS without the pages of files: the
	// embedded store maps its own, which grows with each record until the first are
	// forgotten, and the system takes its pages back when it needs them. Heap is what the
	// last collection found alive; Stored is the size of the store's file, or the memory
	// of its server.
	RSS, Own, Heap, Stored int64
	Goroutines, FDs        int
}

const mib = 1 << 20

// String tells them all.
func (v Vitals) String() string {
	text := fmt.Sprintf("RSS %d MiB, heap %.1f MiB, %d goroutines, %d descriptors",
		v.RSS/mib, float64(v.Heap)/mib, v.Goroutines, v.FDs)
	if v.Stored > 0 {
		text += fmt.Sprintf(", store %.1f MiB", float64(v.Stored)/mib)
	}
	return text
}

// bounded reports whether nothing exceeds the bound; zero is no bound.
func (v Vitals) bounded(bound Vitals) bool {
	within := func(value, bound int64) bool { return bound == 0 || value <= bound }
	return within(v.RSS, bound.RSS) && within(v.Heap, bound.Heap) && within(v.Stored, bound.Stored) &&
		within(int64(v.Goroutines), int64(bound.Goroutines)) && within(int64(v.FDs), int64(bound.FDs))
}

// Trend is how vitals went over time, measured at equal intervals.
type Trend []Vitals

// What may be added under a load that stays the same. The most that was taken up
// in the last third of the time may exceed the most of the middle third (the
// first one warms up) by flatShare and a constant, in which a collector's cycles
// and a few grown buffers disappear. A leak of 1 KiB per call at 2,000 calls/s
// exceeds that of the heap in five seconds.
const (
	flatShare      = 0.10
	flatHeap       = 8 * mib
	flatRSS        = 24 * mib
	flatStored     = 8 * mib
	flatGoroutines = 100
	flatFDs        = 50
	// fewest is how many measurements a trend takes.
	fewest = 6
)

// Grown says what was not flat; nothing when all was.
func (s Trend) Grown() []string {
	if len(s) < fewest {
		return []string{fmt.Sprintf("only %d measurements", len(s))}
	}
	third := len(s) / 3
	middle, last := s[third:2*third].Most(), s[2*third:].Most()
	var grown []string
	for _, of := range []struct {
		what               string
		from, to, constant int64
	}{
		{"the heap", middle.Heap, last.Heap, flatHeap},
		{"its own memory", middle.Own, last.Own, flatRSS},
		{"the store", middle.Stored, last.Stored, flatStored},
		{"goroutines", int64(middle.Goroutines), int64(last.Goroutines), flatGoroutines},
		{"descriptors", int64(middle.FDs), int64(last.FDs), flatFDs},
	} {
		if of.to > of.from+int64(flatShare*float64(of.from))+of.constant {
			grown = append(grown, fmt.Sprintf("%s grew from %d to %d under the same load", of.what, of.from, of.to))
		}
	}
	return grown
}

// without is the trend without what is not to be judged.
func (s Trend) without(what func(*Vitals)) Trend {
	rest := slices.Clone(s)
	for i := range rest {
		what(&rest[i])
	}
	return rest
}

// Most is the most of each.
func (s Trend) Most() Vitals {
	var m Vitals
	for _, v := range s {
		m.RSS, m.Own, m.Heap, m.Stored = max(m.RSS, v.RSS), max(m.Own, v.Own), max(m.Heap, v.Heap), max(m.Stored, v.Stored)
		m.Goroutines, m.FDs = max(m.Goroutines, v.Goroutines), max(m.FDs, v.FDs)
	}
	return m
}

// String tells start, middle and end.
func (s Trend) String() string {
	if len(s) == 0 {
		return "not measured"
	}
	start, mid, end := s[0], s[len(s)/2], s[len(s)-1]
	text := fmt.Sprintf("RSS %d/%d/%d MiB (its own %d/%d/%d), heap %.1f/%.1f/%.1f MiB", start.RSS/mib, mid.RSS/mib, end.RSS/mib,
		start.Own/mib, mid.Own/mib, end.Own/mib,
		float64(start.Heap)/mib, float64(mid.Heap)/mib, float64(end.Heap)/mib)
	if end.Stored > 0 {
		text += fmt.Sprintf(", store %.1f/%.1f/%.1f MiB", float64(start.Stored)/mib, float64(mid.Stored)/mib, float64(end.Stored)/mib)
	}
	return text
}
