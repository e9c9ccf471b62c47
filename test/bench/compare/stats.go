package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// counters are read before and after a round.
type counters struct {
	cpu, redis time.Duration
	// scripts and plain are the commands that Redis has processed. Those that a
	// script makes inside the server are among plain, too.
	scripts, plain int64
}

// trips is the number of commands that came over the network between two
// readings: the scripts, where the contestant uses scripts at all.
func trips(before, after counters) int64 {
	if scripts := after.scripts - before.scripts; scripts > 0 {
		return scripts
	}
	return after.plain - before.plain
}

var commandCalls = regexp.MustCompile(`cmdstat_([a-z|]+):calls=(\d+)`)

// median returns the round with the median throughput, with the median of
// each latency.
func median(samples []sample) sample {
	mid := func(get func(sample) time.Duration) time.Duration {
		values := make([]time.Duration, len(samples))
		for i, s := range samples {
			values[i] = get(s)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	sorted := slices.SortedFunc(slices.Values(samples), func(a, b sample) int {
		return cmp.Compare(a.perSecond(), b.perSecond())
	})
	m := sorted[len(sorted)/2]
	m.p50 = mid(func(s sample) time.Duration { return s.p50 })
	m.p99 = mid(func(s sample) time.Duration { return s.p99 })
	m.cpu, m.redis = mid(sample.cpuPerCall)*time.Duration(m.calls), mid(sample.redisPerCall)*time.Duration(m.calls)
	return m
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func us(d time.Duration) string { return fmt.Sprintf("%dµs", d.Microseconds()) }
