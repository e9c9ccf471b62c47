//go:build e2e

package e2e_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecall "github.com/sidecall/sidecall/clients/go"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
)

// desk runs a sidecar with the config that the clients' examples name, and
// returns its address and its ledger of tickets.
func desk(t *testing.T) (target, ledger string) {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(harness.Root(), "clients", "examples", "sidecall.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// The harness chooses the address.
	rest := regexp.MustCompile(`(?m)^listen:.*$`).ReplaceAllString(string(config), "")
	if rest == string(config) {
		t.Fatal("the example config does not say where it listens")
	}
	s := harness.Start(t, rest)
	return "tcp://" + s.Addr, filepath.Join(s.Dir, "tickets.jsonl")
}

type ticket struct {
	Title    string `json:"title"`
	Priority string `json:"priority"`
	Due      string `json:"due"`
	People   int    `json:"people"`
}

func tickets(t *testing.T, ledger string) []ticket {
	t.Helper()
	f, err := os.Open(ledger)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []ticket
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var one ticket
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		out = append(out, one)
	}
	return out
}

// The examples of the clients, run by the real grpcio and grpc-js against a real
// sidecar, print what they are meant to show, and every ticket exists once.
func TestTheClientsExamples(t *testing.T) {
	clients := filepath.Join(harness.Root(), "clients")
	examples := map[string]func(t *testing.T) *exec.Cmd{
		"python": func(t *testing.T) *exec.Cmd {
			python, err := mcpservers.Python()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), python, "-B", filepath.Join(clients, "python", "examples", "agent_loop.py"))
			cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(clients, "python", "src"))
			return cmd
		},
		"node": func(t *testing.T) *exec.Cmd {
			built(t)
			return exec.CommandContext(t.Context(), "node", filepath.Join(clients, "node", "examples", "agent-loop.mjs"))
		},
	}
	for name, example := range examples {
		t.Run(name, func(t *testing.T) {
			target, ledger := desk(t)
			cmd := example(t)
			cmd.Args = append(cmd.Args, target)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s%s", err, out, stderr.String())
			}
			shows(t, string(out),
				"tools: create_ticket, list_tickets",
				`INVALID_ARGS: {"code":"INVALID_ARGS"`, `Did you mean \"urgent\"?`,
				"call_1 creat_ticket", `UNKNOWN_TOOL: {"code":"UNKNOWN_TOOL"`,
				`Did you mean \"priority\"?`, `e.g. 3`,
				"replayed: ",
				"done: 2 tickets after ",
			)
			opened := tickets(t, ledger)
			if len(opened) != 2 {
				t.Fatalf("%d tickets were opened, not 2: %+v\n%s", len(opened), opened, out)
			}
			fire, water := opened[0], opened[1]
			if fire.Title != "Printer on fire" || fire.Priority != "urgent" || fire.Due == "" || fire.Due == "tomorrow" {
				t.Errorf("first ticket %+v\n%s", fire, out)
			}
			if water.Title != "Water in the server room" || water.Priority != "high" || water.People != 3 {
				t.Errorf("second ticket %+v\n%s", water, out)
			}
		})
	}
}

// built fails the test when the Node client has not been built.
func built(t *testing.T) {
	t.Helper()
	for _, part := range []string{"node_modules/@grpc/grpc-js", "dist/esm/index.js"} {
		if _, err := os.Stat(filepath.Join(harness.Root(), "clients", "node", filepath.FromSlash(part))); err != nil {
			t.Fatalf("the Node client is not built (run make deps): %v", err)
		}
	}
}

// shows fails the test when a text lacks one of the parts, in their order.
func shows(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Fatalf("%q is not shown, or not there:\n%s", part, text)
		}
		rest = after
	}
}

// The Go client against a real sidecar: a batch with a mistake in it, and the
// same batch again.
func TestTheGoClient(t *testing.T) {
	target, ledger := desk(t)
	client, err := sidecall.Dial(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	turn := []sidecall.Call{
		{ToolUseID: "call_0", ToolName: "create_ticket", Arguments: `{"title":"Paper is out","priority":"low"}`, ConversationID: "go", TurnID: "1"},
		{ToolUseID: "call_1", ToolName: "create_ticket", Arguments: `{"title":`, ConversationID: "go", TurnID: "1"},
	}
	first, err := client.ExecuteTools(t.Context(), turn...)
	if err != nil {
		t.Fatal(err)
	}
	if first[0].GetIsError() || first[0].GetReplayed() || first[1].GetError().GetCode() != "INVALID_ARGS" {
		t.Fatalf("results %v", first)
	}
	again, err := client.ExecuteTools(t.Context(), turn...)
	if err != nil {
		t.Fatal(err)
	}
	if !again[0].GetReplayed() || again[0].GetContent() != first[0].GetContent() {
		t.Errorf("sent again: %v, first: %v", again[0], first[0])
	}
	if n := len(tickets(t, ledger)); n != 1 {
		t.Errorf("%d tickets were opened, not 1", n)
	}

	// What a program has done wrong is an error of the program.
	if _, err := client.ExecuteTool(t.Context(), sidecall.Call{ToolName: "create_ticket", ConversationID: "go"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a call without an id: %v", err)
	}
	tools, err := client.ListTools(t.Context(), "")
	if err != nil || len(tools) < 2 || tools[0].GetName() != "create_ticket" {
		t.Errorf("tools %v, error %v", tools, err)
	}
}

// Of a message with a call that is larger than a request may be, each call has its result,
// and the others have run.
func TestACallThatIsTooLargeForARequest(t *testing.T) {
	target, ledger := desk(t)
	client, err := sidecall.Dial(target)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	of := func(id, title string) sidecall.Call {
		return sidecall.Call{ToolUseID: id, ToolName: "create_ticket", ConversationID: "large", TurnID: "1", Arguments: `{"title":"` + title + `","priority":"low"}`}
	}
	results, err := client.ExecuteTools(t.Context(), of("a", "Paper"), of("b", strings.Repeat("x", 5<<20)), of("c", "Ink"))
	if err != nil {
		t.Fatal(err)
	}
	if results[0].GetIsError() || results[2].GetIsError() || results[1].GetError().GetCode() != "INVALID_ARGS" ||
		!strings.Contains(results[1].GetContent(), "at most 4194304 bytes (limits.max_request_bytes)") {
		t.Errorf("%v", results)
	}
	if n := len(tickets(t, ledger)); n != 2 {
		t.Errorf("%d tickets were opened, not 2", n)
	}
}
