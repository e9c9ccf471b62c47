// Package collector runs a real OpenTelemetry Collector (tools/otelcol) for tests, and
// reads back what it has written of the telemetry that was sent to it.
package collector

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/transcript"
)

// patience bounds the start and the end of the process, on a machine that is busy.
const patience = 2 * time.Minute

// The files, by what is in them.
const traces, metrics, logs = "traces", "metrics", "logs"

// Collector is a running collector. What it is sent over OTLP it writes to a file for
// each signal.
type Collector struct {
	// GRPC and HTTP take OTLP, both host:port.
	GRPC, HTTP string

	tb  testing.TB
	dir string
	cmd *exec.Cmd
	log *transcript.Transcript
	// gone is closed when the process has ended.
	gone chan struct{}
}

// Start starts a collector and waits until it takes connections. It ends with the test.
func Start(tb testing.TB) *Collector {
	tb.Helper()
	c := &Collector{
		GRPC: harness.FreePort(tb), HTTP: harness.FreePort(tb),
		tb: tb, dir: tb.TempDir(), log: &transcript.Transcript{}, gone: make(chan struct{}),
	}
	config := filepath.Join(c.dir, "otelcol.yaml")
	if err := os.WriteFile(config, []byte(c.config()), 0o600); err != nil {
		tb.Fatal(err)
	}
	c.cmd = exec.CommandContext(context.Background(), harness.Tool(tb, "otelcol"), "--config", config)
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	cmd := c.cmd
	go func() { // ends with the process
		_ = cmd.Wait() // Stop looks at how it ended
		close(c.gone)
	}()
	tb.Cleanup(c.Stop)
	c.await(c.GRPC)
	c.await(c.HTTP)
	return c
}

// config has no processor: what comes in is written as it came.
func (c *Collector) config() string {
	file := func(signal string) string {
		return fmt.Sprintf("{path: %q, format: proto, flush_interval: 20ms}", filepath.Join(c.dir, signal))
	}
	return fmt.Sprintf(`
receivers: {otlp: {protocols: {grpc: {endpoint: %q}, http: {endpoint: %q}}}}
exporters: {file/traces: %s, file/metrics: %s, file/logs: %s}
service:
  pipelines:
    traces: {receivers: [otlp], exporters: [file/traces]}
    metrics: {receivers: [otlp], exporters: [file/metrics]}
    logs: {receivers: [otlp], exporters: [file/logs]}
`, c.GRPC, c.HTTP, file(traces), file(metrics), file(logs))
}

// await waits until the process listens at an address.
func (c *Collector) await(address string) {
	c.tb.Helper()
	harness.WaitFor(c.tb, "the collector to listen at "+address, func() bool {
		select {
		case <-c.gone:
			c.tb.Fatalf("the collector has ended: %v\n%s", c.cmd.ProcessState, c.log)
		default:
		}
		conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", address)
		return err == nil && conn.Close() == nil
	})
}

// Env has a process send everything to the collector, and soon; more comes after it.
func (c *Collector) Env(more ...string) []string {
	return append([]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + c.GRPC, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
		"OTEL_BSP_SCHEDULE_DELAY=20", "OTEL_BLRP_SCHEDULE_DELAY=20", "OTEL_METRIC_EXPORT_INTERVAL=100",
	}, more...)
}

// Stop ends the process, which writes what it has before that. One that has been
// stopped is left alone.
func (c *Collector) Stop() {
	c.tb.Helper()
	if c.cmd == nil {
		return
	}
	cmd := c.cmd
	c.cmd = nil
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.tb.Error(err)
	}
	select {
	case <-c.gone:
	case <-time.After(patience):
		c.tb.Errorf("the collector did not end: %v", cmd.Process.Kill())
		<-c.gone
	}
	if !cmd.ProcessState.Success() {
		c.tb.Errorf("the collector ended with %v\n%s", cmd.ProcessState, c.log)
	}
}
