//go:build prove

package overload

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// vitals measures the sidecar now.
func (w *world) vitals() Vitals {
	w.t.Helper()
	_, metrics := w.Get("/metrics")
	v := Vitals{
		Heap:       int64(metric(metrics, "go_gc_heap_live_bytes")),
		Goroutines: int(metric(metrics, "go_goroutines")),
	}
	if v.Heap <= 0 || v.Goroutines <= 0 {
		w.t.Fatal("/metrics does not tell the heap or the goroutines")
	}
	proc := fmt.Sprintf("/proc/%d/", w.PID())
	statm, err := os.ReadFile(proc + "statm")
	if err != nil {
		w.t.Fatal(err)
	}
	var size, resident, ofFiles int64 // in pages: proc(5), statm
	if _, err := fmt.Sscan(string(statm), &size, &resident, &ofFiles); err != nil {
		w.t.Fatal(err)
	}
	v.RSS, v.Own = resident*int64(os.Getpagesize()), (resident-ofFiles)*int64(os.Getpagesize())
	fds, err := os.ReadDir(proc + "fd")
	if err != nil {
		w.t.Fatal(err)
	}
	v.FDs = len(fds)
	if w.stored != nil {
		v.Stored = w.stored()
	}
	return v
}

// processorTime is how long the sidecar has computed in its life, in seconds.
func (w *world) processorTime() float64 {
	w.t.Helper()
	_, metrics := w.Get("/metrics")
	return metric(metrics, "process_cpu_seconds_total")
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
