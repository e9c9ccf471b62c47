package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/transcript"
)

// connected is a connection to an address, which the test closes.
func connected(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(address, "tcp://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // nothing is sent any more
	return conn
}

// services are what an address says it serves.
func services(t *testing.T, address string) string {
	t.Helper()
	stream, err := reflectionpb.NewServerReflectionClient(connected(t, address)).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	res, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(res.GetListServicesResponse().GetService())
}

// withLostCall runs a sidecar, with more of a config, in which the call order-1 of
// the tool pay is of unknown outcome.
func withLostCall(t *testing.T, dir, more string) (agents []string, log *transcript.Transcript) {
	t.Helper()
	agents = []string{"unix://" + filepath.Join(dir, "s.sock"), "tcp://" + harness.FreePort(t)}
	log = &transcript.Transcript{}
	s := started(t, parsed(t, fmt.Sprintf(`
listen: [%q, %q]
admin: "off"
identity: {require: []}
%s
backends: {sh: {exec: {env: [PATH]}}}
tools: {pay: {backend: sh, effect: non_idempotent, exec: {argv: [sh, -c, "exit 7"]}}}
`, agents[0], agents[1], more)), Options{Log: slog.NewTextHandler(log, nil), Version: "test"})
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	res, err := sidecallv1.NewToolServiceClient(connected(t, agents[0])).ExecuteTool(t.Context(),
		&sidecallv1.ExecuteToolRequest{ToolUseId: "order-1", ToolName: "pay"})
	if err != nil || res.GetError().GetCode() != "OUTCOME_UNKNOWN" {
		t.Fatalf("%v, %v", res, err)
	}
	return agents, log
}

// settling is a request that says of order-1, under a made-up name, that it has not
// run: whoever sends it again then runs it.
func settling() *sidecallv1.ResolveExecutionRequest {
	return &sidecallv1.ResolveExecutionRequest{
		ToolUseId: "order-1", State: sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN, Reason: "trust me", ResolvedBy: "the auditor",
	}
}

// Whoever reaches a listener of agents, over TCP any user of the machine, must not
// settle a payment as not run: it would run twice.
func TestAgentsCannotSettle(t *testing.T) {
	dir := harness.ShortDir(t)
	agents, _ := withLostCall(t, dir, "store: {embedded: {path: "+filepath.Join(dir, "calls.db")+"}}")
	for _, address := range agents {
		operator := sidecallv1.NewOperatorServiceClient(connected(t, address))
		_, listing := operator.ListUnknown(t.Context(), &sidecallv1.ListUnknownRequest{})
		_, resolving := operator.ResolveExecution(t.Context(), settling())
		_, verifying := operator.VerifyExecution(t.Context(), &sidecallv1.VerifyExecutionRequest{ToolUseId: "order-1"})
		for _, err := range []error{listing, resolving, verifying} {
			if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "operator") || !strings.Contains(err.Error(), filepath.Join(dir, "calls.operator.sock")) {
				t.Errorf("%s: %v", address, err)
			}
		}
		if served := services(t, address); strings.Contains(served, "OperatorService") || !strings.Contains(served, "ToolService") {
			t.Errorf("%s says that it serves %s", address, served)
		}
		err := connected(t, address).Invoke(t.Context(), "/sidecall.v1.NoSuchService/Method", settling(), settling())
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: a service that nobody has: %v", address, err)
		}
	}
	e, err := sidecallv1.NewToolServiceClient(connected(t, agents[0])).GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ToolUseId: "order-1"})
	if err != nil || e.GetState() != sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN {
		t.Errorf("the call is %v, %v", e, err)
	}
}

// The audit names the user that the system names; what the caller calls itself is
// beside it.
func TestWhoSettlesIsWhoTheSystemSays(t *testing.T) {
	dir := harness.ShortDir(t)
	agents, log := withLostCall(t, dir, "store: {embedded: {path: "+filepath.Join(dir, "calls.db")+"}}")
	socket := filepath.Join(dir, "calls.operator.sock")
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	operator := sidecallv1.NewOperatorServiceClient(connected(t, "unix://"+socket))
	listed, err := operator.ListUnknown(t.Context(), &sidecallv1.ListUnknownRequest{})
	if err != nil || len(listed.GetExecutions()) != 1 {
		t.Fatalf("%v, %v", listed, err)
	}
	res, err := operator.ResolveExecution(t.Context(), settling())
	if err != nil {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	made := res.GetExecution().GetResult().GetResolution()
	if made.GetBy() != me.Username || made.GetClaimedBy() != "the auditor" || made.GetReason() != "trust me" {
		t.Errorf("the record says %v", made)
	}
	if want := fmt.Sprintf("by=%s reason=\"trust me\" claimed_by=\"the auditor\"", me.Username); !strings.Contains(log.String(), want) {
		t.Errorf("the log does not say %s:\n%s", want, log)
	}
	if served := services(t, "unix://"+socket); !strings.Contains(served, "OperatorService") {
		t.Errorf("it says that it serves %s", served)
	}
	e, err := sidecallv1.NewToolServiceClient(connected(t, agents[0])).GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ToolUseId: "order-1"})
	if err != nil || e.GetState() != sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN {
		t.Errorf("the call is %v, %v", e, err)
	}
}

// What is off is said, at the start and to who asks; what was asked for and cannot
// be had keeps the sidecar from starting.
func TestAnOperatorsSurfaceThatIsOff(t *testing.T) {
	dir := harness.ShortDir(t)
	taken := filepath.Join(dir, "calls.operator.sock")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	embedded := "store: {embedded: {path: " + filepath.Join(dir, "calls.db") + "}}\n"
	for more, want := range map[string]string{
		"store: {memory: {}}":        "set operator: unix:///path",
		embedded:                     "exists and is no socket",
		embedded + `operator: "off"`: "off in the config",
	} {
		t.Run(want, func(t *testing.T) {
			agents, log := withLostCall(t, harness.ShortDir(t), more)
			if !strings.Contains(log.String(), want) || strings.Contains(log.String(), "cannot be settled by hand") == strings.Contains(more, "off") {
				t.Errorf("the log says %s", log)
			}
			_, err := sidecallv1.NewOperatorServiceClient(connected(t, agents[0])).ResolveExecution(t.Context(), settling())
			if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), want) {
				t.Error(err)
			}
		})
	}
	_, err := Start(t.Context(), parsed(t, fmt.Sprintf("listen: [%q]\nadmin: \"off\"\nstore: {memory: {}}\noperator: unix://%s\n",
		"unix://"+filepath.Join(dir, "s.sock"), taken)), quiet())
	if err == nil || !strings.Contains(err.Error(), "operator: ") || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("a socket that cannot be had: %v", err)
	}
}
