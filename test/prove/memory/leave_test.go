//go:build prove

package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// mostPerCaller is the process's own memory that a call at work may take whose
// caller has left, beside what the process had before; mostOfNone is what it may
// have taken meanwhile besides, however few they were.
const (
	mostPerCaller = 128 << 10
	mostOfNone    = 64 << 20
)

// leaveConfig has a seat for each caller, and leases that outlast the load.
const leaveConfig = `
lease: 10m
defaults: {attempt_timeout: 20m, deadline: 30m}
limits: {max_in_flight: 20000}
backends:
  web: {http: {base_url: %[1]q, allow_private: true}, max_in_flight: 20000, breaker: {failures: 1000000}}
  run: {exec: {env: [PATH]}, max_in_flight: 20000}
  far: {mcp: {url: "%[1]s/mcp", allow_private: true}, prefix: far_, max_in_flight: 20000}
tools:
  web_act: {backend: web, description: Does it., http: {method: POST, path: /act}}
  run_act: {backend: run, description: Does it., exec: {argv: [sh, -c, "echo >>%[2]s; read line <%[3]s"]}}
`

// site is where the effects of calls happen, which end when the door is opened.
type site struct {
	arrived atomic.Int64
	door    chan struct{}
}

func (o *site) work() {
	o.arrived.Add(1)
	<-o.door
}

// startSite is a site for tools over http and MCP, which are held by the same door.
func startSite(t *testing.T) (o *site, url string) {
	t.Helper()
	o = &site{door: make(chan struct{})}
	server := mcp.NewServer(&mcp.Implementation{Name: "site", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "act", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			o.work()
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
		})
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	mux.HandleFunc("/act", func(w http.ResponseWriter, _ *http.Request) {
		o.work()
		_, _ = fmt.Fprint(w, "done") // whose client left is seen in the record
	})
	up := httptest.NewServer(mux)
	t.Cleanup(up.Close)
	return o, up.URL
}

// own is the process's own memory now, as test/prove/overload takes it: in RAM and
// backed by no file, whose pages go as they are needed.
func own(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	var size, resident, ofFiles int64 // in pages: proc(5), statm
	if _, err := fmt.Sscan(string(text), &size, &resident, &ofFiles); err != nil {
		t.Fatal(err)
	}
	return (resident - ofFiles) * int64(os.Getpagesize())
}

// leavers is callers of one tool who all leave it at work.
type leavers struct {
	t         *testing.T
	s         *harness.Sidecar
	way, tool string
	n         int
	// arrived is how many calls are at work, open ends them.
	arrived func() int
	open    func()
}

// leave has all callers leave their calls at work, and returns what that took.
func (l leavers) leave() {
	l.t.Helper()
	before := own(l.t, l.s.PID())
	present, leave := context.WithCancel(context.Background())
	defer leave()
	var callers errgroup.Group
	for i := range l.n {
		callers.Go(func() error {
			res, err := l.s.Client.ExecuteTool(present, l.call(i))
			if status.Code(err) != codes.Canceled {
				return fmt.Errorf("call %d was told %v, %w", i, res, err)
			}
			return nil
		})
	}
	harness.WaitFor(l.t, "all calls to be at work", func() bool { return l.arrived() == l.n })
	with := own(l.t, l.s.PID())
	leave()
	violations := 0
	if err := callers.Wait(); err != nil {
		violations++
		l.t.Error(err)
	}
	l.inFlight(l.n)
	without := own(l.t, l.s.PID())
	l.open()
	l.inFlight(0)
	lost, after := l.lost(), own(l.t, l.s.PID())
	if limit := before + mostOfNone + int64(l.n)*mostPerCaller; max(without, after) > limit {
		violations++
		l.t.Errorf("%d MiB of own memory, and %d at their end, want %d at most", without>>20, after>>20, limit>>20)
	}
	proof.Report(l.t, proof.Row{
		Fault: "every caller leaves its call at work, " + l.way, Store: "embedded", Runs: l.n, Violations: violations + lost,
		Figure: fmt.Sprintf("%d calls at work at once, without a caller; own memory %d MiB before, %d with their callers, %d without (%d KiB for each call), %d at their end; all recorded",
			l.n, before>>20, with>>20, without>>20, (without-before)/int64(l.n)>>10, after>>20),
	})
}

func (l leavers) call(i int) *sidecallv1.ExecuteToolRequest {
	return &sidecallv1.ExecuteToolRequest{
		ToolUseId: fmt.Sprintf("%s-%d", l.tool, i), ToolName: l.tool, ConversationId: "leave", ArgumentsJson: `{}`,
	}
}

func (l leavers) inFlight(n int) {
	l.t.Helper()
	line := fmt.Sprintf("\nsidecall_calls_in_flight %d\n", n)
	harness.WaitFor(l.t, "the calls in flight", func() bool {
		_, page := l.s.Get("/metrics")
		return strings.Contains(page, line)
	})
}

// lost is how many calls are not recorded as done, or ran more than once.
func (l leavers) lost() (lost int) {
	l.t.Helper()
	var others atomic.Int64
	var looks errgroup.Group
	looks.SetLimit(50)
	for i := range l.n {
		looks.Go(func() error {
			record, err := l.s.Client.GetExecution(l.t.Context(), &sidecallv1.GetExecutionRequest{
				ConversationId: "leave", ToolUseId: l.call(i).GetToolUseId(),
			})
			if err != nil || record.GetState() != sidecallv1.ExecutionState_EXECUTION_STATE_DONE || record.GetResult().GetIsError() {
				others.Add(1)
				return fmt.Errorf("call %d: %v, %w", i, record, err)
			}
			return nil
		})
	}
	if err := looks.Wait(); err != nil {
		l.t.Errorf("%d are not done; one is %v", others.Load(), err)
	}
	if n := l.arrived(); n != l.n {
		others.Add(1)
		l.t.Errorf("%d executions of %d calls", n, l.n)
	}
	return int(others.Load())
}

// TestAllCallersLeave: as many calls as there are seats go on without anybody who
// waits for them. Each takes what a call takes, and no more for being alone.
func TestAllCallersLeave(t *testing.T) {
	n, commands := proof.Runs(1_000, 10_000), proof.Runs(50, 500)
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur < uint64(n+1_000) {
		t.Fatalf("%d calls at once need as many open files, and %d are allowed (ulimit -n): %v", n, files.Cur, err)
	}
	for tool, way := range map[string]string{"web_act": "http", "far_act": "MCP", "run_act": "exec"} {
		t.Run(way, func(t *testing.T) {
			o, url := startSite(t)
			ledger, door := t.TempDir()+"/ledger", t.TempDir()+"/door"
			if err := syscall.Mkfifo(door, 0o600); err != nil {
				t.Fatal(err)
			}
			s := harness.New(t, fmt.Sprintf(leaveConfig, url, ledger, door))
			s.Release = true // its memory is measured
			s.Run()
			harness.WaitFor(t, tool, func() bool { return strings.Contains(strings.Join(s.Tools(), " "), tool) })
			l := leavers{t: t, s: s, way: way, tool: tool, n: n}
			l.arrived, l.open = func() int { return int(o.arrived.Load()) }, func() { close(o.door) }
			if tool == "run_act" {
				l.n = commands
				l.arrived = func() int { return entries(t, ledger) }
				l.open = func() { openDoor(t, door, commands) }
			} else {
				t.Cleanup(func() { // what a test that failed has left there
					select {
					case <-o.door:
					default:
						close(o.door)
					}
				})
			}
			l.leave()
		})
	}
}

func entries(t *testing.T, ledger string) int {
	t.Helper()
	text, err := os.ReadFile(ledger)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// openDoor lets so many commands end, each of which reads a line.
func openDoor(t *testing.T, door string, commands int) {
	t.Helper()
	pipe, err := os.OpenFile(door, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pipe.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := pipe.WriteString(strings.Repeat("\n", commands)); err != nil {
		t.Fatal(err)
	}
}
