package pattern

import (
	"runtime"
	"strings"
	"testing"
)

// What it may cost to read an expression and to hold a text against it: bytes
// allocated whatever the input, and per byte of it. Time is counted in steps.
const (
	allocatedFlat    = 64 << 20
	allocatedPerByte = 4 << 10
	fuzzSteps        = 1 << 17
)

// FuzzCost holds what goes in against what it takes: steps and memory, whatever
// expression and whatever text. It counts no time, so that a slow machine finds
// nothing that a fast one would not.
func FuzzCost(f *testing.F) {
	for _, source := range []string{
		nested, `(?:(?:a{1,10}){1,10}){1,10}b`, `^(?=.*[A-Z])(?=.*\d).{8,64}$`, `^.{0,20000}$`, `^(?:a|bc){0,3500}$`, `(?i)[!-\x{1E940}]+`, `[\pL\pN]+`, `(?:a?){500}a{500}`,
		`(((((a*)*)*)*)*)*b`, strings.Repeat(`[^]`, 100), strings.Repeat("a{1000}", 90), `^(\w+\s?)*$`, `(x+x+)+y`,
	} {
		f.Add(source, strings.Repeat("a", 4000))
	}
	f.Fuzz(func(t *testing.T, source, text string) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, err := ECMA(source)
		if err == nil {
			m := NewMeter(t.Context(), fuzzSteps)
			p.Match(m, text)
			p.Find(m, text)
			// The last character is gone through to its end.
			if spent := m.Spent(); spent > fuzzSteps+int64(4*p.Size()+len(text)) {
				t.Errorf("%d steps, %d are allowed", spent, fuzzSteps)
			}
		}
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(allocatedFlat+allocatedPerByte*(len(source)+len(text))); got > most {
			t.Errorf("%d MiB for %d bytes of a pattern and %d of a text, %d are allowed", got>>20, len(source), len(text), most>>20)
		}
	})
}
