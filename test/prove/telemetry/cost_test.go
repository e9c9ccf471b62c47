//go:build prove

package telemetry

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/prove/scratch"
	"github.com/sidecall/sidecall/test/testkit/collector"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

const (
	inFlight = 16
	// round is how many calls a sidecar has before it is the next one's turn. One round
	// makes more spans and records than wait for a collector.
	round = 1600
)

// contestant is a sidecar, and what its calls took.
type contestant struct {
	*harness.Sidecar
	t    *testing.T
	name string
	// p50 and p99 are of each round.
	p50, p99 []time.Duration
	cpu      float64 // seconds
	made     int
}

func startContestant(t *testing.T, name, up string, env ...string) *contestant {
	t.Helper()
	s := harness.New(t, fmt.Sprintf(`
store: {embedded: {path: %q}}
backends: {up: {http: {base_url: %q, allow_private: true}, max_in_flight: 1000}}
tools: {act: {backend: up, http: {method: POST, path: /act}}}
`, filepath.Join(scratch.Dir(t), "sidecall.db"), up), env...)
	s.Release = true // it is measured
	sink, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	s.Output = sink // lines are written, and nobody reads them
	s.Run()
	return &contestant{Sidecar: s, t: t, name: name}
}

// load makes the calls of a round, and returns how long each took.
func (c *contestant) load(first int) []time.Duration {
	c.t.Helper()
	took := make([][]time.Duration, inFlight)
	var calling sync.WaitGroup
	for caller := range inFlight {
		calling.Go(func() {
			for n := range round / inFlight {
				id := fmt.Sprint(first, ".", caller, ".", n)
				began := time.Now()
				res, err := c.Client.ExecuteTool(context.Background(), &sidecallv1.ExecuteToolRequest{
					ToolUseId: id, ToolName: "act", ConversationId: "c" + strconv.Itoa(caller), TurnId: strconv.Itoa(first), ArgumentsJson: `{"n":"` + id + `"}`,
				})
				took[caller] = append(took[caller], time.Since(began))
				if err != nil || res.GetIsError() {
					c.t.Errorf("%s: call %s: %v, %v", c.name, id, res, err)
					return
				}
			}
		})
	}
	calling.Wait()
	return slices.Concat(took...)
}

// compete is a round that counts.
func (c *contestant) compete(first int) {
	c.t.Helper()
	before := c.metric(`process_cpu_seconds_total`)
	took := c.load(first)
	c.cpu += c.metric(`process_cpu_seconds_total`) - before
	c.made += len(took)
	slices.Sort(took)
	c.p50, c.p99 = append(c.p50, took[len(took)/2]), append(c.p99, took[len(took)*99/100])
}

// metric is the sum of the samples of a metric whose labels, if any, match.
func (c *contestant) metric(pattern string) float64 {
	c.t.Helper()
	_, page := c.Get("/metrics")
	sum := 0.0
	for _, sample := range regexp.MustCompile(`(?m)^`+pattern+` (\S+)$`).FindAllStringSubmatch(page, -1) {
		value, err := strconv.ParseFloat(sample[1], 64)
		if err != nil {
			c.t.Fatal(err)
		}
		sum += value
	}
	return sum
}

// typical is the median of the rounds: what else the machine did in one of them says
// nothing.
func typical(rounds []time.Duration) time.Duration {
	slices.Sort(rounds)
	return rounds[len(rounds)/2]
}

func (c *contestant) figure() string {
	return fmt.Sprintf("%s %.2f/%.2f ms, %.0f µs, %.0f MiB", c.name, ms(typical(c.p50)), ms(typical(c.p99)),
		1e6*c.cpu/float64(c.made), c.metric(`go_gc_heap_live_bytes`)/(1<<20))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// silent is an address that takes connections and says nothing, ever.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() }) // the other side may have gone
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // which ends accepting
		accepting.Wait()
	})
	return listener.Addr().String()
}

// Rounds are taken in turn, so that whatever else the machine does hits all alike.
func TestWhatTelemetryCosts(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a caller that goes away is the load's to tell of
		_, _ = io.WriteString(w, `{"ok":true}`)
	}))
	t.Cleanup(up.Close)
	to := func(address string) []string {
		return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + address, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}
	}
	there := collector.Start(t)
	off := startContestant(t, "off", up.URL)
	on := startContestant(t, "on", up.URL, to(there.GRPC)...)
	tenth := startContestant(t, "a tenth sampled", up.URL, append(to(there.GRPC), "OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.1")...)
	away := []*contestant{
		startContestant(t, "dead", up.URL, to(harness.FreePort(t))...),
		startContestant(t, "silent", up.URL, to(silent(t))...),
	}
	all := append([]*contestant{off, on, tenth}, away...)
	rounds := proof.Runs(4, 20)
	for n := range rounds + 1 {
		for _, c := range all {
			if n == 0 {
				c.load(n) // it warms up, and fills what waits for a collector
			} else {
				c.compete(n)
			}
		}
	}

	violations, runs := 0, 0
	figures := make([]string, len(all))
	for i, c := range all {
		figures[i], runs = c.figure(), runs+c.made
	}
	if t.Failed() {
		violations++
	}
	for _, c := range away {
		lost := c.metric(`sidecall_telemetry_records_total\{[^}]*sidecall_outcome="(?:queue_full|failed)"[^}]*\}`)
		if lost == 0 {
			violations++
			t.Errorf("%s: nothing was lost, so the collector was not away", c.name)
		}
		if waiting := c.metric(`sidecall_telemetry_waiting\{[^}]*\}`); waiting > 2*2048 {
			violations++
			t.Errorf("%s: %.0f spans and records wait", c.name, waiting)
		}
		if typical(c.p50) > 3*max(typical(on.p50), typical(off.p50))/2 || typical(c.p99) > 2*max(typical(on.p99), typical(off.p99)) {
			violations++
			t.Errorf("%s: calls are slower than with a collector that is there", c.name)
		}
	}
	if on.metric(`sidecall_telemetry_records_total\{[^}]*sidecall_outcome="sent"[^}]*\}`) == 0 {
		violations++
		t.Error("on: nothing was sent")
	}
	proof.Report(t, proof.Row{
		Fault: "collector dead, or silent", Store: "embedded", Runs: runs, Violations: violations,
		Figure: "p50/p99, CPU per call, live heap: " + strings.Join(figures, "; "),
	})
}
