package server

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// What is told of a tool is not looked for among the series of all others.
func TestTheOverviewOfAToolCostsTheSameAmongMany(t *testing.T) {
	cost := func(tools int) float64 {
		registry := prometheus.NewRegistry()
		calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: callsMetric}, []string{toolLabel, errorLabel})
		took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: durationMetric}, []string{toolLabel})
		registry.MustRegister(calls, took)
		for i := range tools {
			name := fmt.Sprint("tool_", i)
			calls.WithLabelValues(name, "").Inc()
			took.WithLabelValues(name).Observe(1)
		}
		seen, err := readMetrics(registry)
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(10, func() {
			one := &sidecallv1.ToolOverview{ToolName: "tool_3"}
			if seen.tool(one); one.GetCalls() != 1 || one.GetP50() == nil {
				t.Errorf("it says %v", one)
			}
		})
	}
	if few, many := cost(10), cost(1_000); few != many {
		t.Errorf("%v allocations among 10 tools, %v among 1,000", few, many)
	}
}
