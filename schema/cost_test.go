package schema

import (
	"runtime/metrics"
	"testing"
	"time"
)

// What checking something small may cost. A machine that is busy, and fuzzing,
// make everything a hundred times slower; what must not happen is minutes and
// gigabytes.
const (
	mostTime   = 20 * time.Second
	mostMemory = 512 << 20
)

// bounded runs f and fails when it costs more. A panic is what makes a fuzzer
// keep an input on which f does not end.
func bounded(t *testing.T, f func()) {
	t.Helper()
	before := allocated()
	watch := time.AfterFunc(mostTime, func() { panic("it takes longer than " + mostTime.String()) })
	f()
	watch.Stop()
	if bytes := allocated() - before; bytes > mostMemory {
		t.Errorf("it took %d MB", bytes>>20)
	}
}

// allocated is how many bytes this process has ever allocated.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
