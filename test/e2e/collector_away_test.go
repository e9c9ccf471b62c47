//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

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
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		accepting.Wait()
	})
	return listener.Addr().String()
}

// outbox is what the metrics say of a signal: what waits to be sent, and what became of
// the rest.
func outbox(t *testing.T, s *harness.Sidecar, signal string) (waiting int, outcomes map[string]int) {
	t.Helper()
	_, page := s.Get("/metrics")
	outcomes = make(map[string]int)
	for _, match := range regexp.MustCompile(`(?m)^sidecall_telemetry_(waiting|records_total)\{(.*)\} (\S+)$`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(match[2], `sidecall_signal="`+signal+`"`) {
			continue
		}
		value, err := strconv.ParseFloat(match[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		if match[1] == "waiting" {
			waiting = int(value)
			continue
		}
		outcome := regexp.MustCompile(`sidecall_outcome="([a-z_]*)"`).FindStringSubmatch(match[2])
		outcomes[outcome[1]] = int(value)
	}
	return waiting, outcomes
}

// A collector that is not there, or takes connections and never answers, holds up no
// call and not the end. What waits for it has a bound, and what is lost is counted.
func TestACollectorThatIsAwaySlowsNothing(t *testing.T) {
	t.Parallel()
	const room, calls, callers = 64, 200, 8
	dead := harness.FreePort(t)
	for name, env := range map[string][]string{
		"dead, grpc":   {"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + dead},
		"dead, http":   {"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + dead},
		"silent, grpc": {"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + silent(t)},
		"silent, http": {"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + silent(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := startTraced(t)
			// Whoever waited for an exporter would do so for an hour.
			s := harness.Start(t, tracedConfig(up.URL), append(env, "E2E_HEADER_SECRET="+headerSecret,
				"OTEL_EXPORTER_OTLP_TIMEOUT=3600000", "OTEL_BSP_EXPORT_TIMEOUT=3600000", "OTEL_BLRP_EXPORT_TIMEOUT=3600000",
				"OTEL_METRIC_EXPORT_TIMEOUT=3600000", "OTEL_METRIC_EXPORT_INTERVAL=50",
				"OTEL_BSP_SCHEDULE_DELAY=20", "OTEL_BLRP_SCHEDULE_DELAY=20",
				fmt.Sprint("OTEL_BSP_MAX_QUEUE_SIZE=", room), fmt.Sprint("OTEL_BLRP_MAX_QUEUE_SIZE=", room))...)
			var calling sync.WaitGroup
			for caller := range callers {
				calling.Go(func() {
					for n := range calls / callers {
						res, err := s.Client.ExecuteTool(t.Context(), &sidecallv1.ExecuteToolRequest{
							ToolUseId: fmt.Sprint(caller, ".", n), ToolName: "fine", ArgumentsJson: fmt.Sprintf(`{"n":"%d.%d"}`, caller, n),
						})
						if err != nil || res.GetIsError() || res.GetReplayed() {
							t.Errorf("call %d.%d: %v, %v", caller, n, res, err)
							return
						}
					}
				})
			}
			calling.Wait()
			if n := len(up.seen("/fine")); n != calls {
				t.Errorf("%d requests, want %d", n, calls)
			}
			harness.WaitFor(t, "all spans to be counted", func() bool {
				waiting, outcomes := outbox(t, s, "traces")
				if waiting > room || outcomes["sent"] > 0 {
					t.Fatalf("%d wait in a room of %d: %v", waiting, room, outcomes)
				}
				return waiting+outcomes["queue_full"]+outcomes["failed"] == 2*calls
			})
			if _, outcomes := outbox(t, s, "traces"); name != "dead, http" && outcomes["queue_full"] == 0 {
				t.Errorf("%d spans in a room of %d, and none is counted as lost for that: %v", 2*calls, room, outcomes)
			}
			if waiting, outcomes := outbox(t, s, "logs"); waiting > room || outcomes["queue_full"]+outcomes["failed"] < calls-room {
				t.Errorf("%d log records wait in a room of %d: %v", waiting, room, outcomes)
			}
			s.Stop() // which must end, and well
			if !strings.Contains(s.Log(), `"msg":"telemetry was lost"`) {
				t.Errorf("the log does not say what was lost:\n%s", s.Log())
			}
		})
	}
}
