//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/collector"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// A share of the traces is sent, each of them whole, as the standard variables say; an
// agent that has decided is followed; and upstreams are told, so that they decide alike.
func TestSampling(t *testing.T) {
	t.Parallel()
	c, up := collector.Start(t), startTraced(t)
	s := harness.Start(t, tracedConfig(up.URL), c.Env("E2E_HEADER_SECRET="+headerSecret,
		"OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.5")...)
	const calls, decided = 40, 8
	for n := range calls {
		s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: fmt.Sprint("own", n), ToolName: "fine"})
	}
	for n := range decided {
		// Ids from both ends of what there is, where the ratio would say yes and no.
		trace := []string{"%032x", "ffffffffffffffffffffffffffffff%02x"}[n/2%2]
		callTraced(t, s, fmt.Sprintf("00-"+trace+"-%s-0%d", n+1, agentSpan, n%2), &sidecallv1.ExecuteToolRequest{
			ToolUseId: fmt.Sprint("agent", n), ToolName: "fine",
		})
	}
	s.Stop() // flushes
	c.Stop()

	var sampled, told []string
	for i, parent := range up.seen("/fine") {
		parts := strings.Split(parent, "-")
		yes := strings.HasSuffix(parts[3], "1") || strings.HasSuffix(parts[3], "3")
		if yes {
			sampled = append(sampled, parts[1])
		}
		if n := i - calls; n >= 0 && yes != (n%2 == 1) {
			t.Errorf("the agent's decision %d was not followed: %s", n, parent)
		}
	}
	for _, span := range c.Spans() {
		if span.GetName() == "attempt" {
			told = append(told, fmt.Sprintf("%x", span.GetTraceId()))
		}
	}
	slices.Sort(sampled)
	slices.Sort(told)
	if !slices.Equal(sampled, told) {
		t.Errorf("upstreams were told of %d traces that are sampled, the collector of %d", len(sampled), len(told))
	}
	if own := len(told) - decided/2; own == 0 || own == calls {
		t.Errorf("%d of %d traces of its own are sampled, want about half", own, calls)
	}
	if len(c.Spans()) != 2*len(told) {
		t.Errorf("%d spans of %d traces, want the call and its attempt of each", len(c.Spans()), len(told))
	}
}
