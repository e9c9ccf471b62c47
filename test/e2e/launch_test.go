//go:build e2e

package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	sidecall "github.com/sidecall/sidecall/clients/go"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
)

// A program starts a sidecar of its own, which runs its calls once, and ends with it,
// however the program ends.
func TestAProgramHasASidecarOfItsOwn(t *testing.T) {
	python, err := mcpservers.Python()
	if err != nil {
		t.Fatal(err)
	}
	built(t)
	programs := map[string][]string{
		"python": {python, "-B", filepath.Join(harness.Root(), "test", "e2e", "python", "launched.py")},
		"node":   {"node", filepath.Join(harness.Root(), "test", "e2e", "node", "launched.mjs")},
	}
	for language, program := range programs {
		for end, ends := range map[string]string{"well": "", "kill": "signal: killed", "exception": "exit status 1"} {
			t.Run(language+" "+end, func(t *testing.T) { launched(t, program, end, ends) })
		}
	}
}

// launched runs a program that ends as it is told, which is seen as ends.
func launched(t *testing.T, program []string, end, ends string) {
	t.Helper()
	dir := harness.ShortDir(t)
	cmd := exec.CommandContext(t.Context(), program[0], append(program[1:len(program):len(program)],
		filepath.Join(harness.Root(), "clients", "examples", "sidecall.yaml"), end)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PWD="+dir, "SIDECALL_DIR="+dir, "SIDECALL_BINARY="+harness.Binary(t),
		"PYTHONPATH="+filepath.Join(harness.Root(), "clients", "python", "src"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	said := ""
	if err != nil {
		said = err.Error()
	}
	if said != ends {
		t.Fatalf("the program ended with %q, want %q\n%s%s", said, ends, out, stderr.String())
	}
	var got struct {
		Socket       string
		Tools        []string
		First, Again []struct {
			Role    string
			Content []struct {
				ID      string `json:"tool_use_id"`
				IsError bool   `json:"is_error"`
				Content any
			}
		}
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s%s", err, out, stderr.String())
	}
	if strings.Join(got.Tools, " ") != "create_ticket list_tickets read_output" {
		t.Errorf("tools %q", got.Tools)
	}
	for name, messages := range map[string]any{"first": got.First, "again": got.Again} {
		text, err := json.Marshal(messages)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.First) != 1 || len(got.First[0].Content) != 2 || got.First[0].Content[0].IsError || !got.First[0].Content[1].IsError ||
			!strings.Contains(string(text), "INVALID_ARGS") {
			t.Errorf("%s: %s", name, text)
		}
	}
	if opened := tickets(t, filepath.Join(dir, "tickets.jsonl")); len(opened) != 1 {
		t.Errorf("%d tickets were opened, want 1: %v", len(opened), opened)
	}
	harness.WaitFor(t, "the sidecar to end", func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", got.Socket)
		if err != nil {
			return true
		}
		_ = conn.Close() // it was only asked whether somebody listens
		return false
	})
	harness.WaitFor(t, "its directory to be removed", func() bool {
		_, err := os.Stat(filepath.Dir(got.Socket))
		return errors.Is(err, fs.ErrNotExist)
	})
}

// launchedDesk is a config whose tool holds each call until the file go exists, and says in
// began that it has begun.
func launchedDesk(t *testing.T) (dir, config string) {
	t.Helper()
	dir = harness.ShortDir(t)
	config = filepath.Join(dir, "sidecall.yaml")
	text := "store: {embedded: {path: " + dir + "/sidecall.db}}\nbackends: {desk: {exec: {dir: " + dir + ", env: [PATH]}}}\n" +
		"tools: {pay: {backend: desk, description: Pay., input_schema: {type: object}, " +
		"exec: {argv: [sh, -c, 'echo paid >>ledger; while [ ! -e go ]; do sleep 0.02; done; echo paid']}}}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SIDECALL_BINARY", harness.Binary(t))
	return dir, config
}

func paid(dir string) int {
	ledger, _ := os.ReadFile(filepath.Join(dir, "ledger")) // which is not there at first
	return strings.Count(string(ledger), "paid")
}

var payment = sidecall.Call{ToolUseID: "1", ToolName: "pay", ConversationID: "c"}

// A program that was killed in the middle of a call, or whose sidecar was told to end, and
// that is started again at once, waits for the sidecar before it, and finds what became of
// the call.
func TestAProgramThatIsStartedAgainAtOnce(t *testing.T) {
	for how, end := range map[string]func(sidecar *exec.Cmd, stdin io.Closer) error{
		"killed":             func(_ *exec.Cmd, stdin io.Closer) error { return stdin.Close() },
		"sidecar terminated": func(sidecar *exec.Cmd, _ io.Closer) error { return sidecar.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(how, func(t *testing.T) { startedAgain(t, end) })
	}
}

func startedAgain(t *testing.T, end func(sidecar *exec.Cmd, stdin io.Closer) error) {
	t.Helper()
	dir, config := launchedDesk(t)
	before := exec.CommandContext(t.Context(), harness.Binary(t), "serve", "--config", config, "--launched")
	stdin, err := before.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := before.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := before.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := before.Start(); err != nil {
		t.Fatal(err)
	}
	drains := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if strings.Contains(lines.Text(), `"draining"`) {
				close(drains)
			}
		}
	}()
	var told struct{ Listen string }
	if err := json.NewDecoder(stdout).Decode(&told); err != nil {
		t.Fatal(err)
	}
	agent, err := sidecall.Dial(told.Listen)
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	go agent.ExecuteTool(t.Context(), payment) // it is broken off
	harness.WaitFor(t, "the call to begin", func() bool { return paid(dir) == 1 })
	if err := errors.Join(agent.Close(), end(before, stdin)); err != nil {
		t.Fatal(err)
	}
	<-drains
	again, waits := make(chan error), make(chan struct{})
	go func() {
		log := func(line string) {
			if strings.Contains(line, "lets its last calls end") {
				close(waits)
			}
		}
		client, err := sidecall.Launch{Config: config, Log: log}.Start(t.Context())
		if err == nil {
			defer client.Close()
			result, failed := client.ExecuteTool(t.Context(), payment)
			if err = failed; err == nil && (!result.GetReplayed() || result.GetIsError()) {
				t.Errorf("the call is answered with %v", result)
			}
		}
		again <- err
	}()
	select {
	case err := <-again:
		t.Fatalf("it did not wait for the call of the one before it: %v", err)
	case <-waits:
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-again; err != nil {
		t.Error(err)
	}
	if err := before.Wait(); err != nil {
		t.Error(err)
	}
	if n := paid(dir); n != 1 {
		t.Errorf("it was paid %d times", n)
	}
}

// A sidecar that is told to end before it is ready sends nobody to itself: who waited for it
// is the next.
func TestASidecarThatIsEndedBeforeItIsReady(t *testing.T) {
	dir := harness.ShortDir(t)
	config, lock := filepath.Join(dir, "sidecall.yaml"), filepath.Join(dir, "sidecall.db.lock")
	text := "backends: {files: {mcp: {command: [sh, -c, 'exec sleep 100000']}}}\n" // which never says its tools
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	first := exec.CommandContext(t.Context(), harness.Binary(t), "serve", "--config", config, "--launched", "--start-timeout", "1h")
	first.Stdout = &said
	stdin, err := first.StdinPipe()
	if err == nil {
		err = first.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	harness.WaitFor(t, "the first to be the host", func() bool { info, err := os.Stat(lock); return err == nil && info.Size() > 0 })
	second := make(chan error, 1)
	go func() {
		client, err := sidecall.Launch{Config: config, Binary: harness.Binary(t), StartTimeout: 10 * time.Second}.Start(t.Context())
		if err == nil {
			err = client.Close()
		}
		second <- err
	}()
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err != nil || said.Len() > 0 {
		t.Errorf("%v, and it says %q", err, said.String())
	}
	if err := <-second; err != nil {
		t.Errorf("the second: %v", err)
	}
}

// The processes of one service share a sidecar by the same call, until the last has gone:
// an id runs once, whichever of them sends it.
func TestTheProcessesOfOneServiceShareASidecar(t *testing.T) {
	dir, config := launchedDesk(t)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var clients [4]*sidecall.Client
	var starting errgroup.Group
	for i := range clients {
		starting.Go(func() (err error) {
			clients[i], err = sidecall.Launch{Config: config}.Start(t.Context())
			return err
		})
	}
	if err := starting.Wait(); err != nil {
		t.Fatal(err)
	}
	for i, client := range clients {
		result, err := client.ExecuteTool(t.Context(), payment)
		if err != nil || result.GetIsError() || result.GetReplayed() != (i > 0) {
			t.Errorf("process %d: %v, %v", i, result, err)
		}
		if err := client.Close(); err != nil { // the others go on
			t.Error(err)
		}
	}
	if n := paid(dir); n != 1 {
		t.Errorf("it was paid %d times", n)
	}
}

// A launch returns when the tools are known of a server that takes its time to say them.
func TestALaunchWaitsForTheToolsOfItsServers(t *testing.T) {
	python, err := mcpservers.Python()
	if err != nil {
		t.Fatal(err)
	}
	dir := harness.ShortDir(t)
	config := filepath.Join(dir, "sidecall.yaml")
	text := "store: {memory: {}}\nbackends: {time: {mcp: {command: [sh, -c, 'sleep 1; exec " + python + " -m mcp_server_time --local-timezone UTC']}}}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := sidecall.Launch{Config: config, Binary: harness.Binary(t)}.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tools, err := client.ListTools(t.Context(), "")
	if err != nil || len(tools) != 3 {
		t.Errorf("there are %d tools, want its two and read_output: %v, %v", len(tools), tools, err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}

// The agent of the Python package repairs its call by what the error says, and opens
// one ticket.
func TestThePythonAgent(t *testing.T) {
	python, err := mcpservers.Python()
	if err != nil {
		t.Fatal(err)
	}
	clients, dir := filepath.Join(harness.Root(), "clients"), harness.ShortDir(t)
	cmd := exec.CommandContext(t.Context(), python, "-B", filepath.Join(clients, "python", "examples", "agent.py"),
		filepath.Join(clients, "examples", "sidecall.yaml"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PWD="+dir, "SIDECALL_DIR="+dir, "SIDECALL_BINARY="+harness.Binary(t), "PYTHONPATH="+filepath.Join(clients, "python", "src"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	shows(t, string(out), `"priority": "urgnt"`, "INVALID_ARGS", "Did you mean", `"priority": "urgent"`, "The ticket is open.", "end_turn after 3 turns")
	if opened := tickets(t, filepath.Join(dir, "tickets.jsonl")); len(opened) != 1 || opened[0].Priority != "urgent" {
		t.Errorf("tickets: %+v", opened)
	}
}

// So can a Go program.
func TestAGoProgramHasASidecarOfItsOwn(t *testing.T) {
	dir, binary := harness.ShortDir(t), harness.Binary(t)
	config := filepath.Join(harness.Root(), "clients", "examples", "sidecall.yaml")
	t.Setenv("TMPDIR", dir)
	t.Setenv("SIDECALL_DIR", dir)
	t.Chdir(dir) // which sets PWD
	client, err := sidecall.Launch{Config: config, Binary: binary}.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	message := `{"id":"msg_1","type":"message","role":"assistant","content":[
		{"type":"tool_use","id":"toolu_1","name":"create_ticket","input":{"title":"Printer on fire","priority":"high"}}]}`
	for range 2 {
		answer, err := client.RunTools(t.Context(), message, sidecall.Call{ConversationID: "c"})
		if err != nil || len(answer.Results) != 1 || answer.Results[0].GetIsError() {
			t.Errorf("%+v, %v", answer, err)
		}
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if opened := tickets(t, filepath.Join(dir, "tickets.jsonl")); len(opened) != 1 {
		t.Errorf("%d tickets were opened, want 1", len(opened))
	}
	if left, err := filepath.Glob(filepath.Join(dir, "sidecall-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// The Node example of under 40 lines: its model slips, is told so, and is done.
func TestAnAgentOfUnderFortyLines(t *testing.T) {
	built(t)
	example := filepath.Join(harness.Root(), "clients", "node", "examples", "agent.mjs")
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n >= 40 {
		t.Errorf("the example has %d lines", n)
	}
	cmd := exec.CommandContext(t.Context(), "node", example)
	cmd.Dir = harness.ShortDir(t)
	cmd.Env = append(os.Environ(), "SIDECALL_BINARY="+harness.Binary(t))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, stderr.String())
	}
	shows(t, string(out), "the model is told:", "INVALID_ARGS", "Did you mean", "end_turn after 3 turns: That is 6 words.")
}
