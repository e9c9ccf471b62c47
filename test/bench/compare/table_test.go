package main

import (
	"math"
	"testing"
)

// Each sample is of the innermost function that a line of the table knows.
func TestSharesOfAProfile(t *testing.T) {
	shares, err := sharesOf([]byte(`File: sidecall
Type: cpu
Time: 2026-11-27 23:10:35 UTC
Duration: 20.1s, Total samples = 100ms ( 0.5%)
-----------+-------------------------------------------------------
      60ms   runtime.memmove
             github.com/sidecall/sidecall/internal/schema.(*quick).check (inline)
             github.com/sidecall/sidecall/internal/call.(*Executor).check
-----------+-------------------------------------------------------
      30ms   runtime.memclrNoHeapPointers
             runtime.mallocgcSmallNoscan (inline)
             runtime.mallocgc
             github.com/sidecall/sidecall/internal/schema.Canonical
-----------+-------------------------------------------------------
      10ms   runtime.goexit
-----------+-------------------------------------------------------
`))
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]float64{"validation": 0.6, "allocation": 0.3, rest: 0.1, "the call itself": 0} {
		if got := shares[line]; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s has %v, want %v", line, got, want)
		}
	}
	if _, err := sharesOf([]byte("File: sidecall\n")); err == nil {
		t.Error("a profile without samples has shares")
	}
}
