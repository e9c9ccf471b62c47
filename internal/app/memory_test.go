package app

import (
	"errors"
	"log/slog"
	"math"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/sidecall/sidecall/internal/config"
)

// The memory that a cgroup has decides what the heap may be, and what requests and
// replies may hold of it; whoever sets GOMEMLIMIT, or the key, knows better.
func TestMemoryIsThatOfTheCgroup(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	percent := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetMemoryLimit(before); debug.SetGCPercent(percent) })
	has := func(bytes uint64) memlimit.Provider { return func() (uint64, error) { return bytes, nil } }
	none := func() (uint64, error) { return 0, errors.New("no cgroup") }
	for _, c := range []struct {
		name       string
		cgroup     memlimit.Provider
		gomemlimit string
		key        config.Bytes
		heap, held int64
	}{
		{"a cgroup of 1 GB", has(1e9), "", 0, 9e8, 9e8 / 4},
		{"no cgroup", none, "", 0, math.MaxInt64, 256 << 20},
		{"a cgroup and the key", has(1e9), "", 1 << 20, 9e8, 1 << 20},
		{"GOMEMLIMIT", has(1e9), "400000000", 0, 4e8, 1e8},
	} {
		t.Run(c.name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			if c.gomemlimit != "" {
				t.Setenv("GOMEMLIMIT", c.gomemlimit)
				debug.SetMemoryLimit(c.heap) // as the runtime does at its start
			}
			cfg := &config.Config{}
			cfg.Limits.MaxHeldBytes = c.key
			held := heldBytes(cfg, slog.New(slog.DiscardHandler), c.cgroup)
			if heap := debug.SetMemoryLimit(-1); heap != c.heap || held.Max() != c.held {
				t.Errorf("a heap of %d and %d held, want %d and %d", heap, held.Max(), c.heap, c.held)
			}
			if rests := debug.SetGCPercent(100) == gcPercentBelow; rests != (c.heap < math.MaxInt64) {
				t.Errorf("the collector rests: %v", rests)
			}
		})
	}
}
