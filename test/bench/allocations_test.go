package bench

import (
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// What a call may allocate in each stage of internal/call/execute.go, over the store in memory: a
// change that makes one dearer is seen here. The names are those of the functions; rest is what is
// in none of them. One more than was counted, for maps and logs that grow now and then.
func TestAllocationsOfACall(t *testing.T) {
	for name, of := range map[string]struct {
		on   options
		most map[string]int
	}{
		"alone": {options{}, map[string]int{"check": 19, "claim": 21, "run": 26, "settle": 22, "tell": 7, "rest": 13}},
		"all":   {options{true, true, true}, map[string]int{"check": 23, "claim": 32, "run": 26, "settle": 36, "tell": 7, "rest": 13}},
	} {
		t.Run(name, func(t *testing.T) {
			got := allocations(t, of.on)
			for stage, most := range of.most {
				if got[stage] == 0 || got[stage] > most {
					t.Errorf("%s has %d allocations, want 1 to %d", stage, got[stage], most)
				}
			}
		})
	}
}

// allocations are those of a call by the stage in which they are made.
func allocations(t *testing.T, on options) map[string]int {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which would empty the pools
	const known, warm, calls = 1000, 200, 300
	e := newExecutor(t, on)
	n := int64(0)
	callUntil := func(end int64) {
		for ; n < end; n++ {
			oneCall(t, e, n)
		}
	}
	callUntil(known) // every conversation has begun
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1
	callUntil(known + warm) // until each thread has taken note of the rate
	start := profiled()
	callUntil(known + warm + calls)
	stages := map[string]int{}
	for stage, objects := range profiled() {
		stages[stage] = int(math.Round(float64(objects-start[stage]) / calls))
	}
	return stages
}

// profiled is how many objects were allocated in calls so far, by stage.
func profiled() map[string]int64 {
	runtime.GC() // which makes the profile that of now
	runtime.GC()
	var records []runtime.MemProfileRecord
	for n, ok := runtime.MemProfile(nil, true); !ok; {
		records = make([]runtime.MemProfileRecord, n+100)
		n, ok = runtime.MemProfile(records, true)
		records = records[:min(n, len(records))]
	}
	objects := map[string]int64{}
	for _, r := range records {
		if stage := stageOf(r.Stack()); stage != "" {
			objects[stage] += r.AllocObjects
		}
	}
	return objects
}

// stageOf is the stage that a stack is in; empty for one that is in no call.
func stageOf(stack []uintptr) (stage string) {
	const executor = "internal/call.(*Executor)."
	stages := []string{"check", "claim", "run", "settle", "tell"}
	for frames := runtime.CallersFrames(stack); ; {
		frame, more := frames.Next()
		if _, method, ok := strings.Cut(frame.Function, executor); ok {
			switch {
			case slices.Contains(stages, method):
				return method
			case method == "Execute":
				return "rest"
			}
		}
		if !more {
			return ""
		}
	}
}
