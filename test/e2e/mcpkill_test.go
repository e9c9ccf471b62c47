//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/failpoint"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
)

// leftOver is what a death in the middle of a call leaves of it.
type leftOver int

const (
	toMake   leftOver = iota // nothing: sent again it is made
	unknown                  // nobody knows
	recorded                 // its result
)

// killedAt are the steps of a call, by what a death there leaves of it.
var killedAt = map[failpoint.Name]leftOver{
	failpoint.AdmissionUnsent: toMake, failpoint.AdmissionDurable: unknown, failpoint.ClaimWon: unknown,
	failpoint.RequestUnsent: unknown, failpoint.RequestLeaving: unknown, failpoint.ResponseHeaders: unknown,
	failpoint.ResponseRead: unknown, failpoint.ReplyInterpreted: unknown, failpoint.SettlementUnsent: unknown,
	failpoint.SettlementDurable: recorded, failpoint.ResultUnsent: recorded,
}

// A sidecar is killed at each step of a call that came over MCP. Sent again to the next one, the call is answered
// from its record, made if it was not, or said to be of unknown outcome: it never happens twice.
func TestServeIsKilledAtEveryStepOfAnMCPCall(t *testing.T) {
	t.Parallel()
	for at, left := range killedAt {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			for _, revision := range []string{"2025-11-25", "2026-07-28"} {
				open, address := openTill(t), harness.FreePort(t)
				s := harness.New(t, open.config+"http: "+address+"\nstore: {embedded: {path: ./sidecall.db}}\n")
				s.Fail(string(at) + "=kill@1")
				s.Run()
				first, err := overHTTP(t, address, revision).CallTool(t.Context(), paymentOverMCP("t-1"))
				if err == nil {
					t.Fatalf("%s: it was not killed: %v", revision, first)
				}
				if signal, err := s.AwaitDeath(); err != nil || signal != syscall.SIGKILL {
					t.Fatalf("%s: %v, %v", revision, signal, err)
				}
				s.Fail("")
				s.Run()
				session := overHTTP(t, address, revision)
				open.isAnswered(t, session, left)
				open.isAnswered(t, session, left)
			}
		})
	}
}

func overHTTP(t *testing.T, address, revision string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: "http://" + address + "/mcp", MaxRetries: -1}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() }) // its server may be gone
	return session
}

// isAnswered sends the payment t-1 again.
func (open *till) isAnswered(t *testing.T, session *mcp.ClientSession, left leftOver) {
	t.Helper()
	res, err := session.CallTool(t.Context(), paymentOverMCP("t-1"))
	if err != nil {
		t.Errorf("sent again: %v", err)
		return
	}
	said, paid := res.Content[0].(*mcp.TextContent).Text, open.paid.Load()
	right := !res.IsError && said == `{"payment":1}` && paid == 1
	if left == unknown {
		right = res.IsError && strings.Contains(said, "OUTCOME_UNKNOWN") && paid <= 1
	}
	if !right {
		t.Errorf("after %d payments it is answered %s", paid, said)
	}
}

// The sidecar behind sidecall mcp is killed at each step of a call: likewise.
func TestTheSidecarOfAFrontOnStdioIsKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for at, left := range killedAt {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			open := openTill(t)
			command := open.onStdio(t)
			failing := slices.Concat([]string{"env", failpoint.Env + "=" + string(at) + "=kill@1", harness.FailpointBinary(t)}, command[1:])
			_, session := stdioClient(t, failing)
			first, err := session.CallTool(t.Context(), paymentOverMCP("t-1"))
			if err == nil {
				t.Fatalf("it was not killed: %v", first)
			}
			_ = session.Close() // what it serves is gone
			_, session = stdioClient(t, command)
			open.isAnswered(t, session, left)
			if err := session.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The MCP server behind a front is killed in the middle of a call: its payment is not taken again, and the call
// answered, also when it is sent again.
func TestTheServerBehindAFrontIsKilled(t *testing.T) {
	t.Parallel()
	python, err := mcpservers.Python()
	if err != nil {
		t.Fatal(err)
	}
	open, address, dir := openTill(t), harness.FreePort(t), harness.ShortDir(t)
	pidFile := filepath.Join(dir, "pid")
	harness.Start(t, fmt.Sprintf(`
http: %s
store: {embedded: {path: ./sidecall.db}}
backends: {till: {mcp: {command: [sh, -c, %q]}}}
`, address, fmt.Sprintf("echo $$ >%s; exec %s -B %s %s", pidFile, python, filepath.Join(harness.Root(), "test", "e2e", "python", "mcppay.py"), open.url)))
	hold := make(chan struct{})
	open.hold.Store(&hold)
	session := overHTTP(t, address, "2026-07-28")
	harness.WaitFor(t, "the server's tool", func() bool {
		listed, err := session.ListTools(t.Context(), nil)
		return err == nil && len(listed.Tools) == 2
	})
	answered := make(chan *mcp.CallToolResult, 1)
	go func() {
		res, err := session.CallTool(context.WithoutCancel(t.Context()), paymentOverMCP("t-1"))
		if err != nil {
			t.Error(err)
		}
		answered <- res
	}()
	harness.WaitFor(t, "the payment", func() bool { return open.paid.Load() == 1 })
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if res := <-answered; res == nil || !res.IsError || !strings.Contains(res.Content[0].(*mcp.TextContent).Text, "OUTCOME_UNKNOWN") {
		t.Errorf("it is answered %v", res)
	}
	close(hold)
	open.isAnswered(t, session, unknown)
}
