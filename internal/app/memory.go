package app

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/limit"
)

const (
	// cgroupRatio is how much of a cgroup's memory the Go heap is told to stay
	// below: the rest is for stacks, the store's mapped file and children.
	cgroupRatio = 0.9
	// heldRatio is which part of the memory limit requests and replies may hold.
	heldRatio = 4
	// heldWithoutLimit is what they may hold where there is no memory limit.
	heldWithoutLimit = 256 << 20
)

// limitMemory sets the memory limit of the Go runtime from that of its cgroup, v1 or
// v2, unless GOMEMLIMIT is set, and returns the one that holds; 0 when there is none.
func limitMemory(logger *slog.Logger, cgroup memlimit.Provider) int64 {
	// The only errors are of a cgroup that cannot be read, or has no limit.
	if _, err := memlimit.Set(memlimit.WithProvider(cgroup), memlimit.WithRatio(cgroupRatio)); err != nil {
		logger.Debug("no memory limit is set from the cgroup", "reason", err.Error())
	}
	most := debug.SetMemoryLimit(-1)
	if most == math.MaxInt64 {
		return 0
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercentBelow)
	}
	return most
}

// gcPercentBelow is what GOGC is where there is a memory limit, near which the collector works as
// often as it has to: far from it a loaded sidecar need not spend its time on that. It saves 5 %
// of the processor time of a call.
const gcPercentBelow = 800

// heldBytes bounds what requests and replies hold at the same time.
func heldBytes(cfg *config.Config, logger *slog.Logger, cgroup memlimit.Provider) *limit.Bytes {
	most, memory := int64(cfg.Limits.MaxHeldBytes), limitMemory(logger, cgroup)
	switch {
	case most > 0:
	case memory > 0:
		most = memory / heldRatio
	default:
		most = heldWithoutLimit
	}
	logger.Info("memory", "limit_bytes", memory, "max_held_bytes", most)
	return limit.NewBytes(most)
}
