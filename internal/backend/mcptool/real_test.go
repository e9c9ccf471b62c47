//go:build e2e

package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/deadline"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
)

// start runs a server that others wrote, by its own command. A server that is
// not installed fails the test.
func start(t *testing.T, server mcpservers.Server, err error) (*running, map[string]tool.Discovered) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, Config{Name: server.Name, Command: server.Command, Env: server.Env, Dir: t.TempDir(), Timing: quick})
	byName := make(map[string]tool.Discovered)
	for _, d := range r.up() {
		if !json.Valid(d.InputSchema) || d.Description == "" {
			t.Errorf("%s is %+v", d.Name, d)
		}
		byName[d.Name] = d
	}
	return r, byName
}

// args renders arguments.
func args(pairs ...any) string {
	m := make(map[string]any)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	data, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func (r *running) wantPart(target, args, part string) {
	r.t.Helper()
	if got := r.want(target, args); !strings.Contains(got, part) {
		r.t.Errorf("%s %s says %q, without %q", target, args, got, part)
	}
}

func TestRealFilesystem(t *testing.T) {
	dir := t.TempDir()
	server, err := mcpservers.Filesystem(dir)
	r, tools := start(t, server, err)
	for name, effect := range map[string]tool.Effect{"read_text_file": tool.ReadOnly, "create_directory": tool.Idempotent, "move_file": tool.NonIdempotent} {
		if d := tools[name]; !d.Claimed || d.Effect != effect {
			t.Errorf("%s claims %s, %v; want %s", name, d.Effect, d.Claimed, effect)
		}
	}
	path := filepath.Join(dir, "a.txt")
	r.want("write_file", args("path", path, "content", "grüße\n"))
	if data, err := os.ReadFile(path); err != nil || string(data) != "grüße\n" {
		t.Errorf("the file holds %q, %v", data, err)
	}
	reply, f := r.call("read_text_file", args("path", path))
	if f != nil || string(reply.Text) != "grüße\n" {
		t.Errorf("read: %q, %v", reply.Text, f)
	}
	r.wantPart("list_directory", args("path", dir), "a.txt")

	_, f = r.callAs(tool.ReadOnly, "read_text_file", args("path", "/etc/hostname"))
	wantFailure(t, f, tool.CodeUnrecoverable, tool.Definite, "tool_error")
	if !strings.Contains(f.Message, "denied") {
		t.Errorf("the reason is lost: %q", f.Message)
	}
	_, f = r.callAs(tool.ReadOnly, "read_text_file", args("path", 5))
	wantFailure(t, f, tool.CodeInvalidArgs, tool.Definite, "tool_error")
	for effect, evidence := range map[tool.Effect]tool.Evidence{tool.NonIdempotent: tool.Ambiguous, tool.ReadOnly: tool.Definite} {
		_, f = r.callAs(effect, "no_such_tool", `{}`)
		wantFailure(t, f, tool.CodeUnknownTool, evidence, "tool_error")
	}
	image := filepath.Join(dir, "a.png")
	if err := os.WriteFile(image, []byte("\x89PNG\r\n\x1a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	reply, f = r.call("read_media_file", args("path", image))
	if f != nil || len(reply.Blocks) != 1 || reply.Blocks[0].MIMEType != "image/png" || len(reply.Blocks[0].Data) != 8 {
		t.Errorf("an image: %+v, %v", reply.Blocks, f)
	}
}

func TestRealFilesystemKilledAgainAndAgain(t *testing.T) {
	dir := t.TempDir()
	server, err := mcpservers.Filesystem(dir)
	r, _ := start(t, server, err)
	for i := range 3 {
		conn := r.current().conn
		if err := syscall.Kill(conn.cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := r.down(); !strings.Contains(err.Error(), "killed") {
			t.Errorf("it is down because %v", err)
		}
		_, f := r.call("list_directory", args("path", dir))
		if f != nil && f.Evidence != tool.NotExecuted {
			t.Errorf("while down: %+v", f)
		}
		r.up()
		r.want("write_file", args("path", filepath.Join(dir, fmt.Sprint(i)), "content", "x"))
	}
}

func TestRealEverything(t *testing.T) {
	server, err := mcpservers.Everything()
	r, tools := start(t, server, err)
	if len(tools) < 8 {
		t.Errorf("only %d tools", len(tools))
	}
	everything(t, r)
}

// everything calls the tools of server-everything, whatever the transport.
func everything(t *testing.T, r *running) {
	t.Helper()
	r.wantPart("echo", args("message", "hello"), "hello")
	r.wantPart("get-sum", args("a", 2, "b", 40), "42")

	reply, f := r.call("get-tiny-image", `{}`)
	if f != nil || len(reply.Blocks) != 1 || reply.Blocks[0].Type != "image" || len(reply.Blocks[0].Data) < 100 {
		t.Errorf("an image: %+v, %v", reply.Blocks, f)
	}
	reply, f = r.call("get-structured-content", args("location", "New York"))
	if f != nil || !json.Valid(reply.Structured) || !strings.Contains(string(reply.Structured), "temperature") {
		t.Errorf("structured: %s, %v", reply.Structured, f)
	}
	reply, f = r.call("get-resource-links", args("count", 3))
	if f != nil || len(reply.Blocks) != 3 || reply.Blocks[0].Type != "resource_link" || reply.Blocks[0].URI == "" {
		t.Errorf("links: %+v, %v", reply.Blocks, f)
	}

	var notes []string
	_, f = r.Invoke(context.Background(), backend.Invocation{
		Target: "trigger-long-running-operation", Args: []byte(args("duration", 0.5, "steps", 3)),
		Progress: func(s backend.Sign) { notes = append(notes, s.Note) }})
	if f != nil || len(notes) < 2 {
		t.Errorf("progress %q, %v", notes, f)
	}

	ctx, pass := deadline.On()
	_, f = r.Invoke(ctx, backend.Invocation{
		Target: "trigger-long-running-operation", Args: []byte(args("duration", 60, "steps", 300)),
		Progress: func(backend.Sign) { pass() }}) // it runs
	wantFailure(t, f, tool.CodeTimeout, tool.Ambiguous, "timeout")
	r.wantPart("echo", args("message", "still there"), "still there")
}

// research calls the task of server-everything, which asks its client half way. It has four stages.
func research(t *testing.T, r *running) {
	t.Helper()
	var notes []string
	caller := &answering{answer: `{"action":"accept","content":{"interpretation":"snake"}}`}
	reply, f := r.Invoke(t.Context(), backend.Invocation{
		Target: "simulate-research-query", Args: []byte(args("topic", "python", "ambiguous", true)), Caller: caller,
		Progress: func(s backend.Sign) { notes = append(notes, s.Note) }})
	if f != nil || !strings.Contains(string(reply.Text), "Research Report: python (snake)") {
		t.Errorf("%s, %+v", reply.Text, f)
	}
	if len(caller.questions) != 1 || !strings.HasPrefix(caller.questions[0], methodElicit) {
		t.Errorf("the caller was asked %q", caller.questions)
	}
	if !slices.ContainsFunc(notes, func(note string) bool { return strings.Contains(note, "Requesting clarification") }) {
		t.Errorf("it was heard of by %q", notes)
	}

	ctx, cancel := context.WithCancel(t.Context())
	_, f = r.Invoke(ctx, backend.Invocation{
		Target: "simulate-research-query", Args: []byte(args("topic", "go")), Progress: func(backend.Sign) { cancel() }})
	wantFailure(t, f, tool.CodeCancelled, tool.Ambiguous, "cancelled")
}

func TestRealTask(t *testing.T) {
	server, err := mcpservers.Everything()
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, Config{Command: server.Command, Env: server.Env, Dir: t.TempDir(), Timing: quick, HandsOn: []string{"elicitation"}})
	r.up()
	research(t, r)
}

func TestRealTaskOverHTTP(t *testing.T) {
	port := freePort(t)
	cmd := listening(t, port)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	r := run(t, Config{URL: fmt.Sprintf("http://127.0.0.1:%d/mcp", port), HTTPClient: &http.Client{Transport: transport}, Timing: quick, HandsOn: []string{"elicitation"}})
	r.up()
	research(t, r)

	// A new process knows of no task: nobody knows what came of it.
	_, f := r.Invoke(t.Context(), backend.Invocation{
		Target: "simulate-research-query", Args: []byte(args("topic", "go")), Progress: func(backend.Sign) {
			if cmd != nil {
				end(cmd)
				cmd = nil
				listening(t, port)
			}
		}})
	wantFailure(t, f, tool.CodeInvalidOutput, tool.Ambiguous, errorTypeTaskLost)
}

// freePort is one of the loopback interface that nobody listens at.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// listening starts server-everything on a port of its own and waits for it.
func listening(t *testing.T, port int) *exec.Cmd {
	t.Helper()
	server, err := mcpservers.EverythingHTTP(port)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(server.Command[0], server.Command[1:]...)
	cmd.Env, cmd.Dir = server.Env, t.TempDir()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(cmd) })
	waitFor(t, "the server listens", func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
	return cmd
}

func end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // unless it has ended
	_ = cmd.Wait()         // killed: an error
}

func TestRealEverythingOverHTTP(t *testing.T) {
	port := freePort(t)
	cmd := listening(t, port)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	r := run(t, Config{Name: "everything", URL: fmt.Sprintf("http://127.0.0.1:%d/mcp", port), HTTPClient: &http.Client{Transport: transport}, Timing: quick})
	r.up()
	everything(t, r)

	// A new process does not know the session.
	end(cmd)
	listening(t, port)
	_, f := r.call("echo", args("message", "hello"))
	if f != nil && f.Evidence != tool.NotExecuted {
		t.Errorf("the call that finds out: %+v", f)
	}
	waitFor(t, "there is a new session", func() bool {
		_, f := r.call("echo", args("message", "hello"))
		return f == nil
	})
	r.wantPart("echo", args("message", "again"), "again")
}

func TestRealMemory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory.json")
	server, err := mcpservers.Memory(file)
	r, _ := start(t, server, err)
	r.want("create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["writes programs"]}]}`)
	r.wantPart("read_graph", `{}`, "writes programs")
	reply, f := r.call("search_nodes", args("query", "Ada"))
	if f != nil || !strings.Contains(string(reply.Structured), `"Ada"`) {
		t.Errorf("search: %s, %v", reply.Structured, f)
	}
}

func TestRealGit(t *testing.T) {
	dir := t.TempDir()
	for _, argv := range [][]string{
		{"git", "init", "-q", dir},
		{"git", "-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "the first commit"},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	server, err := mcpservers.Git(dir)
	r, _ := start(t, server, err)
	r.wantPart("git_log", args("repo_path", dir), "the first commit")
	if err := os.WriteFile(filepath.Join(dir, "new.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.wantPart("git_status", args("repo_path", dir), "new.txt")
	r.want("git_add", `{"repo_path":`+fmt.Sprintf("%q", dir)+`,"files":["new.txt"]}`)
	// Its own word that it failed does not say how far it came.
	_, f := r.call("git_checkout", args("repo_path", dir, "branch_name", "nope"))
	wantFailure(t, f, tool.CodeUnrecoverable, tool.Ambiguous, "tool_error")
	if f.Message == "" {
		t.Error("the reason is lost")
	}
}

func TestRealTime(t *testing.T) {
	server, err := mcpservers.Time()
	r, tools := start(t, server, err)
	if d := tools["get_current_time"]; d.Effect != tool.ReadOnly || !d.Claimed {
		t.Errorf("get_current_time claims %s, %v", d.Effect, d.Claimed)
	}
	r.wantPart("get_current_time", args("timezone", "Europe/London"), "Europe/London")
	r.wantPart("convert_time", args("source_timezone", "Etc/UTC", "time", "12:00", "target_timezone", "Asia/Tokyo"), "21:00")
	_, f := r.callAs(tool.ReadOnly, "get_current_time", args("timezone", "Nowhere/Land"))
	if f == nil || f.Evidence != tool.Definite || !strings.Contains(f.Message, "Nowhere/Land") {
		t.Errorf("a wrong time zone: %+v", f)
	}
}

func TestRealSQLite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.db")
	server, err := mcpservers.SQLite(file)
	r, _ := start(t, server, err)
	r.want("create_table", args("query", "CREATE TABLE payments (id INTEGER PRIMARY KEY, cents INTEGER)"))
	for i := range 3 {
		r.want("write_query", args("query", fmt.Sprintf("INSERT INTO payments (cents) VALUES (%d)", 100*i)))
	}
	conn := r.current().conn
	if err := syscall.Kill(conn.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.down()
	r.up()
	r.wantPart("read_query", args("query", "SELECT count(*) AS n, sum(cents) AS s FROM payments"), "300")
	_, f := r.callAs(tool.ReadOnly, "read_query", args("query", "SELECT a FROM nothing"))
	if f != nil && f.Evidence != tool.Definite {
		t.Errorf("a broken query: %+v", f)
	}
	_, f = r.callAs(tool.ReadOnly, "read_query", `{}`)
	if f == nil || f.Evidence != tool.Definite {
		t.Errorf("no query: %+v", f)
	}
}
