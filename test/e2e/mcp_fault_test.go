//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
)

// fetch is the tool of server-everything whose effect a test can see from
// outside: the server's process requests a URL, here that of a gate.
const fetch = "gzip-file-as-resource"

// victim is a real server that is killed while it works on a call.
type victim struct {
	*harness.Sidecar
	t    *testing.T
	gate *gate
	// kill ends the server's process with SIGKILL; comeBack does what is needed
	// to have it back, nothing where the sidecar starts it.
	kill, comeBack func()
}

// patient lets no call end by its own time, and the breaker hardly be in the way
// of a server that is back.
func patient(backend map[string]any) map[string]any {
	return with(backend,
		"tools", map[string]any{fetch: map[string]any{"attempt_timeout": "10m", "deadline": "10m"}},
		"breaker", map[string]any{"open_for": "100ms"})
}

func onStdio(t *testing.T) *victim {
	t.Helper()
	mark := "SIDECALL_TEST_DIR=" + t.TempDir()
	server, err := mcpservers.Everything()
	server.Env = append(server.Env, mark)
	return &victim{
		t: t, gate: startGate(t), Sidecar: harness.Start(t, inYAML(t, map[string]any{"backends": map[string]any{
			"every": patient(stdio(t)(server, err)),
		}})),
		kill: func() {
			pid := processWith(t, mark)
			if pid == 0 {
				t.Fatal("the server's process is not to be found")
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		},
		comeBack: func() {},
	}
}

func overHTTP(t *testing.T) *victim {
	t.Helper()
	server := startHTTPServer(t, freePort(t))
	return &victim{
		t: t, gate: startGate(t), Sidecar: harness.Start(t, inYAML(t, map[string]any{"backends": map[string]any{
			"every": patient(server.backend()),
		}})),
		kill:     server.kill,
		comeBack: func() { startHTTPServer(t, server.port) },
	}
}

// A server that is killed in mid-call: its call may have happened, which is said
// at once and for ever; and the server is back by itself.
func TestMCPServerKilledInMidCall(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *victim{"stdio": onStdio, "HTTP": overHTTP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := start(t)
			harness.WaitFor(t, "the server", func() bool { return serves(t, v.Sidecar, fetch) })
			call := &sidecallv1.ExecuteToolRequest{
				ToolUseId: "t1", ToolName: fetch,
				ArgumentsJson: args(t, "name", "page.gz", "data", v.gate.URL, "outputType", "resource"),
			}
			answer := make(chan *sidecallv1.ExecuteToolResponse, 1)
			go func() {
				res, err := execute(t, v.Sidecar, call)
				if err != nil {
					t.Error(err)
				}
				answer <- res
			}()
			<-v.gate.arrived // the effect has begun, and nobody will ever finish it
			v.kill()
			killed := time.Now()
			res := <-answer
			t.Logf("answered %v after the kill", time.Since(killed).Round(time.Millisecond))
			wantError(t, res, "OUTCOME_UNKNOWN")
			// Not the end of some time limit: the loss itself is the answer.
			if why := res.GetError().GetConstraint(); !strings.Contains(why, "lost") || res.GetRecovery().GetAttempts() != 1 {
				t.Errorf("%q after %d attempts", why, res.GetRecovery().GetAttempts())
			}
			if res.GetRecovery().GetRetryable() || res.GetRecovery().GetClass() != sidecallv1.RecoveryClass_RECOVERY_CLASS_UNKNOWN {
				t.Errorf("recovery %v", res.GetRecovery())
			}

			v.comeBack()
			v.waitUntilWell()
			if again := v.Call(call); !again.GetReplayed() || again.GetContent() != res.GetContent() {
				t.Errorf("sent again: %v, first: %v", again, res)
			}
			if n := v.gate.effects.Load(); n != 1 {
				t.Errorf("it happened %d times", n)
			}
			harness.WaitFor(t, "/readyz after the server came back", func() bool {
				body := v.ready()
				return body.Status == "ready" && len(body.BackendsDown) == 0
			})
			lives(t, v.Sidecar)
		})
	}
}

// waitUntilWell waits until the server does its work again. Until then its
// calls fail at once, provably unexecuted.
func (v *victim) waitUntilWell() {
	v.t.Helper()
	n, began := 0, time.Now()
	defer func() { v.t.Logf("well again after %v and %d calls", time.Since(began).Round(time.Millisecond), n) }()
	harness.WaitFor(v.t, "the server to come back", func() bool {
		n++
		res := v.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: fmt.Sprint("echo", n), ToolName: "echo", ArgumentsJson: `{"message":"well?"}`})
		if !res.GetIsError() {
			return true
		}
		switch code := res.GetError().GetCode(); code {
		case "DEPENDENCY_UNAVAILABLE", "CIRCUIT_OPEN":
		default:
			v.t.Fatalf("while the server is down a call gets %s: %s", code, res.GetContent())
		}
		return false
	})
}

func (v *victim) ready() readiness {
	v.t.Helper()
	_, body := readyz(v.t, v.Sidecar)
	return body
}

// Servers that are dead, silent or wrong from the start cost only their own
// tools, say why, and are taken in when they come to life. The sidecar is ready when
// the one of them is there that is not optional.
func TestMCPDeadBackendsAtStart(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	late := &httpServer{t: t, port: port}
	refused := func(command ...string) map[string]any {
		return map[string]any{"mcp": map[string]any{"command": command, "connect_timeout": "5s"}, "optional": true}
	}
	s := harness.Start(t, inYAML(t, map[string]any{
		"backends": map[string]any{
			"well":      with(stdio(t)(mcpservers.Time()), "prefix", "time_"),
			"missing":   refused("/no/such/server"),
			"exits":     refused("/bin/false"),
			"silent":    refused("/bin/sleep", "600"),
			"no_mcp":    refused("/bin/echo", "this is not JSON-RPC"),
			"late":      late.backend(),
			"forbidden": map[string]any{"mcp": map[string]any{"url": "http://127.0.0.1:1/mcp"}, "optional": true},
		},
		"tools": map[string]any{
			"lost": map[string]any{"backend": "missing", "description": "A tool of a server that is not there."},
		},
	}))
	harness.WaitFor(t, "the server that is well", func() bool { return serves(t, s, "time_convert_time") })
	dead := []string{"missing", "exits", "silent", "no_mcp", "late", "forbidden"}
	harness.WaitFor(t, "the dead ones to be found dead", func() bool {
		_, body := readyz(t, s)
		return len(body.BackendsDown) == len(dead)
	})
	code, body := readyz(t, s)
	if code != http.StatusServiceUnavailable || body.Status != "starting" || len(body.Undiscovered) != len(dead) {
		t.Errorf("/readyz = %d %+v, want 503 starting", code, body)
	}
	if code, out, _ := harness.CLI(t, "ready", "--config", s.Config); code != 1 || !strings.Contains(out, "backend late is not discovered yet: ") {
		t.Errorf("sidecall ready: exit code %d: %s", code, out)
	}
	const service = "sidecall.v1.ToolService"
	if alive, ready := healthOf(t, s, ""), healthOf(t, s, service); alive != healthpb.HealthCheckResponse_SERVING || ready != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("the process is %s, the service %s", alive, ready)
	}
	// Any name may be one of late's: it has no prefix.
	soon := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t3", ToolName: "echo", ArgumentsJson: `{"message":"hi"}`})
	wantError(t, soon, "DEPENDENCY_UNAVAILABLE")
	if r := soon.GetRecovery(); r.GetRetryAfter().AsDuration() <= 0 || !r.GetRetryable() {
		t.Errorf("the tool of a server that is not there yet: %v", soon)
	}
	unavailable := map[string]string{}
	for _, down := range listTools(t, s).GetUnavailableBackends() {
		unavailable[down.GetName()] = down.GetReason()
	}
	for _, name := range dead {
		if unavailable[name] == "" || body.BackendsDown[name] == "" {
			t.Errorf("%s is dead, and the reasons given are %q and %q", name, unavailable[name], body.BackendsDown[name])
		}
		t.Logf("%s: %s", name, unavailable[name])
	}
	well := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t1", ToolName: "time_get_current_time", ArgumentsJson: `{"timezone":"Etc/UTC"}`})
	if well.GetIsError() {
		t.Errorf("the server that is well fails too: %s", well.GetContent())
	}
	lost := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t2", ToolName: "lost"})
	wantError(t, lost, "DEPENDENCY_UNAVAILABLE")
	// Provably unexecuted: the same id may be sent again.
	execution, err := s.Client.GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ToolUseId: "t2"})
	if err != nil || execution.GetState() != sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN {
		t.Errorf("the call of the dead server is %v, %v", execution.GetState(), err)
	}

	startHTTPServer(t, port)
	began := time.Now()
	harness.WaitFor(t, "the late server", func() bool { return serves(t, s, "echo") })
	if code, out, stderr := harness.CLI(t, "ready", "--config", s.Config, "--wait", "1m"); code != 0 {
		t.Errorf("sidecall ready: exit code %d: %s%s", code, out, stderr)
	}
	harness.WaitFor(t, "the service to be healthy", func() bool { return healthOf(t, s, service) == healthpb.HealthCheckResponse_SERVING })
	if ran := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t3", ToolName: "echo", ArgumentsJson: `{"message":"hi"}`}); ran.GetIsError() {
		t.Errorf("the same call when its server is there: %v", ran)
	}
	t.Logf("taken in %v after it began to listen", time.Since(began).Round(time.Millisecond))
	if _, body := readyz(t, s); body.BackendsDown["late"] != "" || body.Status != "degraded" {
		t.Errorf("/readyz = %+v, want degraded, all but late down", body)
	}
	lives(t, s)
}
