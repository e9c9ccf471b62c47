//go:build e2e

// Package e2e runs the built binary against real servers, clients and faults.
package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
)

// world is a sidecar in front of the real MCP servers, and what they work on.
type world struct {
	*harness.Sidecar
	t *testing.T
	// files is the directory of the filesystem server, repo the repository of
	// the git server.
	files, repo string
	calls       int
}

// worldServers is how many backends a world has; one of them is over HTTP.
const worldServers = 7

// startWorld starts all six servers behind one sidecar, server-everything
// twice: on stdin and stdout, and over streamable HTTP. Between them the
// backends use every way to say which effect a tool has.
func startWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, files: filepath.Join(dir, "files"), repo: filepath.Join(dir, "repo")}
	if err := os.Mkdir(w.files, 0o700); err != nil {
		t.Fatal(err)
	}
	makeRepo(t, w.repo)
	remote := startHTTPServer(t, freePort(t))
	// Shorter than the operation takes: its progress has to keep it alive. Longer
	// than a machine may stand still.
	impatient := map[string]any{"trigger-long-running-operation": map[string]any{"attempt_timeout": "9s"}}
	w.Sidecar = harness.Start(t, inYAML(t, map[string]any{"backends": map[string]any{
		"files": with(stdio(t)(mcpservers.Filesystem(w.files)), "prefix", "files_",
			"effects", map[string]string{"read_text_file": "read_only", "write_file": "idempotent"}),
		"every":  with(stdio(t)(mcpservers.Everything()), "prefix", "every_", "tools", impatient),
		"remote": with(remote.backend(), "prefix", "remote_", "tools", impatient),
		"memory": with(trusting(stdio(t)(mcpservers.Memory(filepath.Join(dir, "memory.jsonl")))), "prefix", "memory_",
			"tools", map[string]any{"add_observations": map[string]any{"fails_cleanly": true}}),
		"git": with(trusting(stdio(t)(mcpservers.Git(w.repo))),
			"effects", map[string]string{"git_commit": "idempotent", "*": "read_only"}),
		"time": with(stdio(t)(mcpservers.Time()), "prefix", "time_", "trust", "trusted",
			"effects", map[string]string{"*": "read_only"}),
		"sqlite": with(stdio(t)(mcpservers.SQLite(filepath.Join(dir, "shop.db"))), "prefix", "sqlite_"),
	}}))
	harness.WaitFor(t, "all MCP servers", func() bool {
		served := map[string]bool{}
		for _, tool := range w.list().GetTools() {
			served[tool.GetBackend()] = true
		}
		return len(served) == worldServers+1 // read_output is the sidecar's own
	})
	return w
}

// call makes a call under an id that was not used before.
func (w *world) call(name, args string) *sidecallv1.ExecuteToolResponse {
	w.t.Helper()
	w.calls++
	return w.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: fmt.Sprint("call_", w.calls), ToolName: name, ArgumentsJson: args})
}

// does makes a call that has to succeed and to say something.
func (w *world) does(name, args string, says ...string) *sidecallv1.ExecuteToolResponse {
	w.t.Helper()
	res := w.call(name, args)
	if res.GetOutcome() != sidecallv1.Outcome_OUTCOME_OK || !res.GetRecorded() {
		w.t.Errorf("%s %s: %s, recorded %t: %s", name, args, res.GetOutcome(), res.GetRecorded(), res.GetContent())
	}
	for _, part := range says {
		if !strings.Contains(res.GetContent(), part) {
			w.t.Errorf("%s %s does not say %q: %s", name, args, part, res.GetContent())
		}
	}
	return res
}

func (w *world) list() *sidecallv1.ListToolsResponse { return listTools(w.t, w.Sidecar) }

func listTools(t *testing.T, s *harness.Sidecar) *sidecallv1.ListToolsResponse {
	t.Helper()
	list, err := s.Client.ListTools(t.Context(), &sidecallv1.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// serves tells whether a tool can be called now.
func serves(t *testing.T, s *harness.Sidecar, name string) bool {
	t.Helper()
	for _, tool := range listTools(t, s).GetTools() {
		if tool.GetName() == name {
			return true
		}
	}
	return false
}

// makeRepo makes a git repository with one commit and one file that is not in it.
func makeRepo(t *testing.T, dir string) {
	t.Helper()
	git := func(args ...string) {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	git("init", "-q", "-b", "main")
	git("config", "user.name", "Ada")
	git("config", "user.email", "ada@example.com")
	write("README", "first\n")
	git("add", "README")
	git("commit", "-q", "-m", "The first commit")
	write("notes.txt", "not yet added\n")
}

// stdio is the backend of a server that the sidecar starts by its own command.
// It takes the two results of a function of mcpservers.
func stdio(t *testing.T) func(mcpservers.Server, error) map[string]any {
	return func(server mcpservers.Server, err error) map[string]any {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		env := map[string]string{}
		for _, one := range server.Env {
			name, value, _ := strings.Cut(one, "=")
			env[name] = value
		}
		return map[string]any{"mcp": map[string]any{"command": server.Command, "env": env}}
	}
}

// with adds keys to a backend.
func with(backend map[string]any, pairs ...any) map[string]any {
	for i := 0; i < len(pairs); i += 2 {
		backend[pairs[i].(string)] = pairs[i+1]
	}
	return backend
}

// trusting takes the effects of tools from the server's annotations.
func trusting(backend map[string]any) map[string]any {
	backend["mcp"].(map[string]any)["trust_annotations"] = true
	return backend
}

// inYAML writes a part of a config: JSON is YAML.
func inYAML(t *testing.T, config map[string]any) string {
	t.Helper()
	var text strings.Builder
	for key, value := range config {
		encoded, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%s: %s\n", key, encoded)
	}
	return text.String()
}

func freePort(t *testing.T) int {
	t.Helper()
	_, text, err := net.SplitHostPort(harness.FreePort(t))
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// httpServer is server-everything as a process of its own, over streamable HTTP.
type httpServer struct {
	t    *testing.T
	port int
	cmd  *exec.Cmd
}

// startHTTPServer starts it and waits until it listens.
func startHTTPServer(t *testing.T, port int) *httpServer {
	t.Helper()
	server, err := mcpservers.EverythingHTTP(port)
	if err != nil {
		t.Fatal(err)
	}
	h := &httpServer{t: t, port: port, cmd: exec.Command(server.Command[0], server.Command[1:]...)}
	h.cmd.Env = server.Env
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.kill)
	harness.WaitFor(t, "server-everything over HTTP", func() bool {
		conn, err := net.DialTimeout("tcp", fmt.Sprint("127.0.0.1:", port), time.Second)
		return err == nil && conn.Close() == nil
	})
	return h
}

// kill ends the process with SIGKILL; the second time it does nothing.
func (h *httpServer) kill() {
	if h.cmd == nil {
		return
	}
	if err := h.cmd.Process.Kill(); err != nil {
		h.t.Error(err)
	}
	_ = h.cmd.Wait() // it was killed, so it reports that
	h.cmd = nil
}

func (h *httpServer) backend() map[string]any {
	return map[string]any{"mcp": map[string]any{"url": fmt.Sprintf("http://127.0.0.1:%d/mcp", h.port), "allow_private": true}}
}

// processWith finds the process whose environment has NAME=VALUE: a process that
// the sidecar has started. 0 when there is none.
func processWith(t *testing.T, variable string) int {
	t.Helper()
	return append(processesWith(t, variable), 0)[0]
}

// processesWith finds all of them.
func processesWith(t *testing.T, variable string) (found []int) {
	t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || len(environs) == 0 {
		t.Fatalf("no processes to be seen in /proc: %v", err)
	}
	for _, path := range environs {
		environ, err := os.ReadFile(path)
		if err != nil { // it has ended, or is another user's
			continue
		}
		for one := range bytes.SplitSeq(environ, []byte{0}) {
			if string(one) == variable {
				pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, pid)
			}
		}
	}
	return found
}
