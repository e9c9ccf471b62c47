package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/sidecall/sidecall/internal/config"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// sleepy is a config with a tool that says in a file that it runs, and then
// takes its time.
func sleepy(t *testing.T) (cfg *config.Config, socket, running string) {
	t.Helper()
	dir := t.TempDir()
	socket, running = filepath.Join(dir, "s.sock"), filepath.Join(dir, "running")
	return parsed(t, fmt.Sprintf(`
listen: [%q]
admin: off
store: {memory: {}}
backends: {sh: {exec: {env: [PATH]}}}
tools: {sleep: {backend: sh, exec: {argv: [sh, -c, "touch %s; sleep 60"]}}}
`, "unix://"+socket, running)), socket, running
}

// dialled is a client of a socket.
func dialled(t *testing.T, socket string) sidecallv1.ToolServiceClient {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // nothing is sent any more
	return sidecallv1.NewToolServiceClient(conn)
}

func quiet() Options { return Options{Log: slog.DiscardHandler, Version: "test"} }

// started runs a sidecar that the test stops.
func started(t *testing.T, cfg *config.Config, options Options) *Sidecar {
	t.Helper()
	s, err := Start(t.Context(), cfg, options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestASidecarTakesCallsFromItsStartToItsStop(t *testing.T) {
	cfg, socket, _ := sleepy(t)
	var log bytes.Buffer
	s := started(t, cfg, Options{Log: slog.NewTextHandler(&log, nil), Version: "test"})
	client := dialled(t, socket)
	listed, err := client.ListTools(t.Context(), &sidecallv1.ListToolsRequest{})
	if err != nil || len(listed.GetTools()) != 2 {
		t.Errorf("the tools are %v, %v; want sleep and read_output", listed.GetTools(), err)
	}
	asked, end := context.WithCancel(t.Context())
	end()
	if err := s.Wait(asked); err != nil {
		t.Errorf("that somebody asked it to end is no failure: %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := client.ListTools(t.Context(), &sidecallv1.ListToolsRequest{}); err == nil {
		t.Error("it answers after its stop")
	}
	for _, want := range []string{"msg=serving", "msg=ready", "tools=2", "store=memory", "msg=draining"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s is not in the log:\n%s", want, log.String())
		}
	}
}

// A file that is wrong and a world that is not as the file says are told apart;
// after either the addresses are free, and nothing runs.
func TestWhyASidecarDoesNotStart(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	socket := filepath.Join(t.TempDir(), "s.sock")
	for name, c := range map[string]struct {
		text    string
		isWrong bool
		says    string
	}{
		"a schema is wrong": {
			"store: {memory: {}}\nbackends: {sh: {exec: {}}}\ntools: {t: {backend: sh, exec: {argv: [x]}, input_schema: {type: 7}}}",
			true, "tools.t.input_schema",
		},
		"an address is taken":      {"store: {memory: {}}\nadmin: " + taken.Addr().String(), false, "admin: "},
		"a store cannot be opened": {"store: {embedded: {path: /not/there/s.db}}", false, "store: "},
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf("listen: [%q]\n%s\n", "unix://"+socket, c.text)
			_, err := Start(t.Context(), parsed(t, text), quiet())
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v, want something with %q", err, c.says)
			}
			if _, wrong := errors.AsType[config.Problems](err); wrong != c.isWrong {
				t.Errorf("that the config is wrong: %v, want %v: %v", wrong, c.isWrong, err)
			}
			if _, err := os.Stat(socket); err == nil {
				t.Error("the socket is still there")
			}
		})
	}
}

// What a sidecar cannot go on without ends the wait for it.
func TestAListenerThatFailsIsWhyASidecarEnds(t *testing.T) {
	cfg, _, _ := sleepy(t)
	s := started(t, cfg, quiet())
	another, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.fronts.serve(&listeners{agents: []agentListener{{Listener: another}}})
	if err := another.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the wait ended with %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// Somebody who watches the health does not keep a sidecar from ending, however long
// calls may take to: his stream has no end of its own.
func TestADrainDoesNotWaitForWatchers(t *testing.T) {
	cfg, socket, _ := sleepy(t)
	s := started(t, cfg, quiet())
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // nothing is sent any more
	watch, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := watch.Recv(); err != nil || first.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("%v, %v", first, err)
	}
	if err := s.Stop(context.Background()); err != nil { // a watcher would be waited for until he leaves
		t.Error(err)
	}
}

// Calls have the time that Stop is given. Those that still run then are cut off,
// which their callers are told, and their number is told too.
func TestACallThatOutlastsTheDrainIsCutOff(t *testing.T) {
	cfg, socket, running := sleepy(t)
	s := started(t, cfg, quiet())
	client := dialled(t, socket)
	answered := make(chan *sidecallv1.ToolError, 1)
	go func() {
		response, err := client.ExecuteTool(context.Background(), &sidecallv1.ExecuteToolRequest{ToolName: "sleep", ToolUseId: "1", ConversationId: "c", ArgumentsJson: "{}"})
		if err != nil {
			t.Errorf("the caller was told nothing: %v", err)
		}
		answered <- response.GetError()
	}()
	harness.WaitFor(t, "the call to run", func() bool { _, err := os.Stat(running); return err == nil })
	drain, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Stop(drain); err == nil || !strings.Contains(err.Error(), "1 request still in flight") {
		t.Errorf("of the call that was cut off: %v", err)
	}
	if told := <-answered; told.GetCode() != "OUTCOME_UNKNOWN" {
		t.Errorf("of the call that was cut off its caller was told %v", told)
	}
}
