//go:build prove

package overload

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// vitals are what a sidecar takes up at an instant.
type vitals struct {
	rss, heap       int64 // bytes; heap is what the last collection found alive
	goroutines, fds int
}

func (v vitals) String() string {
	return fmt.Sprintf("RSS %d MiB, heap %.1f MiB, %d goroutines, %d descriptors",
		v.rss/mib, float64(v.heap)/mib, v.goroutines, v.fds)
}

// vitals measures the sidecar now.
func (w *world) vitals() vitals {
	w.t.Helper()
	_, metrics := w.Get("/metrics")
	v := vitals{
		heap:       int64(metric(metrics, "go_gc_heap_live_bytes")),
		goroutines: int(metric(metrics, "go_goroutines")),
	}
	if v.heap <= 0 || v.goroutines <= 0 {
		w.t.Fatal("/metrics does not tell the heap or the goroutines")
	}
	proc := fmt.Sprintf("/proc/%d/", w.PID())
	statm, err := os.ReadFile(proc + "statm")
	if err != nil {
		w.t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(statm))[1], 10, 64)
	if err != nil {
		w.t.Fatal(err)
	}
	v.rss = pages * int64(os.Getpagesize())
	fds, err := os.ReadDir(proc + "fd")
	if err != nil {
		w.t.Fatal(err)
	}
	v.fds = len(fds)
	return v
}

// metric reads a metric without labels; -1 when it is not there.
func metric(text, name string) float64 {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			if v, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
				return v
			}
		}
	}
	return -1
}

// attempts is how many attempts the sidecar has made in its life.
func (w *world) attempts() float64 {
	w.t.Helper()
	_, metrics := w.Get("/metrics")
	total := 0.0
	for line := range strings.Lines(metrics) {
		if labels, ok := strings.CutPrefix(line, "sidecall_attempts_total{"); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(labels[strings.LastIndexByte(labels, '}')+1:]), 64)
			if err != nil {
				w.t.Fatalf("/metrics: %q", line)
			}
			total += v
		}
	}
	if total == 0 {
		w.t.Fatal("/metrics tells of no attempts")
	}
	return total
}

// processorTime is how long the sidecar has been computing, in seconds.
func (w *world) processorTime() float64 {
	_, metrics := w.Get("/metrics")
	return metric(metrics, "process_cpu_seconds_total")
}

// processors is how many there are for everybody.
func processors() int { return runtime.NumCPU() }
