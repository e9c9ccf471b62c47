//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/failpoint"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
)

// wrapClient is a client of the official SDK that has started a server: a wrapper, or what it stands
// in for.
type wrapClient struct {
	*mcp.ClientSession
	t   *testing.T
	cmd *exec.Cmd
	log *logFile
	// notes are the messages of logging and progress that have come.
	notes chan string
}

type logFile struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logFile) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startClient runs a command as the server of a client that speaks a revision of the protocol.
func startClient(t *testing.T, version string, env []string, command ...string) *wrapClient {
	t.Helper()
	log := &logFile{}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), log
	c := connectClient(t, version, &mcp.CommandTransport{Command: cmd, TerminateDuration: 10 * time.Second}, log)
	c.cmd = cmd
	return c
}

// connectClient is a client on a transport, whose log is shown where that fails.
func connectClient(t *testing.T, version string, transport mcp.Transport, log *logFile) *wrapClient {
	t.Helper()
	c := &wrapClient{t: t, log: log, notes: make(chan string, 1000)}
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			c.notes <- "progress " + asText(t, req.Params.Progress)
		},
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("%v\n%s", err, c.log)
	}
	c.ClientSession = session
	t.Cleanup(func() {
		_ = session.Close() // it may have been killed
		if t.Failed() {
			t.Logf("%s", c.log)
		}
	})
	return c
}

const settledVersion = "2025-11-25"

// startWrapped is a client of a server behind a wrapper, whose state is in a directory.
func startWrapped(t *testing.T, state string, flags []string, server mcpservers.Server) *wrapClient {
	t.Helper()
	binary := harness.Binary(t)
	if slices.ContainsFunc(server.Env, func(pair string) bool { return strings.HasPrefix(pair, failpoint.Env+"=") }) {
		binary = harness.FailpointBinary(t)
	}
	command := slices.Concat([]string{binary, "wrap", "--log-level", "info"}, flags, []string{"--"}, server.Command)
	return startClient(t, settledVersion, append(server.Env, "XDG_STATE_HOME="+state), command...)
}

// there is a server of test/e2e.
func there(t *testing.T) func(mcpservers.Server, error) mcpservers.Server {
	t.Helper()
	return func(s mcpservers.Server, err error) mcpservers.Server {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func asText(t *testing.T, value any) string {
	t.Helper()
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// try calls a tool under a tool use id; the error of the protocol is a text, too.
func (c *wrapClient) try(id, name string, arguments map[string]any) (*mcp.CallToolResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	params := &mcp.CallToolParams{Name: name, Arguments: arguments}
	if id != "" {
		params.Meta = mcp.Meta{"claudecode/toolUseId": id}
	}
	return c.CallTool(ctx, params)
}

func (c *wrapClient) call(id, name string, arguments map[string]any) string {
	c.t.Helper()
	res, err := c.try(id, name, arguments)
	if err != nil {
		return "error: " + err.Error()
	}
	return asText(c.t, res)
}

// everything is all that a client can find out of server-everything without changing anything, by
// what was asked.
func (c *wrapClient) everything() map[string]string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	found := map[string]string{}
	keep := func(what string, value any, err error) {
		if err != nil {
			found[what] = "error: " + err.Error()
			return
		}
		found[what] = asText(c.t, value)
	}
	keep("initialize", c.InitializeResult(), nil)
	tools, err := c.ListTools(ctx, nil)
	if err == nil {
		tools.Tools = slices.DeleteFunc(tools.Tools, func(t *mcp.Tool) bool { return t.Name == "read_output" })
	}
	keep("tools/list", tools, err)
	prompts, err := c.ListPrompts(ctx, nil)
	keep("prompts/list", prompts, err)
	prompt, err := c.GetPrompt(ctx, &mcp.GetPromptParams{Name: "args-prompt", Arguments: map[string]string{"city": "Bern", "state": "BE"}})
	keep("prompts/get", prompt, err)
	prompt, err = c.GetPrompt(ctx, &mcp.GetPromptParams{Name: "no-such-prompt"})
	keep("prompts/get of none", prompt, err)
	resources, err := c.ListResources(ctx, nil)
	keep("resources/list", resources, err)
	templates, err := c.ListResourceTemplates(ctx, nil)
	keep("resources/templates/list", templates, err)
	if resources != nil && len(resources.Resources) > 0 {
		read, err := c.ReadResource(ctx, &mcp.ReadResourceParams{URI: resources.Resources[0].URI})
		keep("resources/read", read, err)
	}
	completed, err := c.Complete(ctx, &mcp.CompleteParams{
		Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "completable-prompt"},
		Argument: mcp.CompleteParamsArgument{Name: "department", Value: "S"},
	})
	keep("completion/complete", completed, err)
	keep("logging/setLevel", "", c.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "debug"})) //nolint:staticcheck // of the revisions that have it
	keep("ping", "", c.Ping(ctx, nil))
	for what, of := range map[string]struct {
		name string
		args map[string]any
	}{
		"echo": {"echo", map[string]any{"message": "hello é"}}, "sum": {"get-sum", map[string]any{"a": 2, "b": 3.5}},
		"image": {"get-tiny-image", map[string]any{}}, "annotated": {"get-annotated-message", map[string]any{"messageType": "error", "includeImage": true}},
		"structured": {"get-structured-content", map[string]any{"location": "Chicago"}},
		"links":      {"get-resource-links", map[string]any{"count": 3}},
		"reference":  {"get-resource-reference", map[string]any{"resourceType": "Text", "resourceId": 1}},
		"failing":    {"get-resource-reference", map[string]any{"resourceType": "Text", "resourceId": 0}},
	} {
		found["call "+what] = untimed(c.call("", of.name, of.args))
	}
	return found
}

// untimed leaves the time of day out, which server-everything puts into resources.
func untimed(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if at := strings.Index(line, " at "); at >= 0 && strings.Contains(line, "Resource") {
			line = line[:at]
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "\n")
}

// What a client finds out of a server behind a wrapper is what it finds out beside it, but for
// read_output.
func TestWrapIsTheServer(t *testing.T) {
	t.Parallel()
	everything := there(t)(mcpservers.Everything())
	beside := startClient(t, settledVersion, everything.Env, everything.Command...).everything()
	wrapped := startWrapped(t, harness.ShortDir(t), nil, everything)
	through := wrapped.everything()
	for what, want := range beside {
		if diff := cmp.Diff(want, through[what]); diff != "" {
			t.Errorf("%s: beside -, through +\n%s", what, diff)
		}
		if strings.HasPrefix(want, "error: ") && !strings.Contains(what, "none") && !strings.Contains(what, "failing") {
			t.Errorf("%s: %s", what, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tools, err := wrapped.ListTools(ctx, nil)
	if err != nil || tools.Tools[len(tools.Tools)-1].Name != "read_output" {
		t.Errorf("read_output is not the last tool: %v, %v", tools, err)
	}
}

// What a client finds out of a server behind a URL is what it finds out beside a wrapper, too, and goes
// on when the server is another process.
func TestWrapIsTheServerBehindAURL(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	server := startHTTPServer(t, port)
	url := fmt.Sprintf("http://127.0.0.1:%d/mcp", port)
	beside := connectClient(t, settledVersion, &mcp.StreamableClientTransport{Endpoint: url}, &logFile{}).everything()
	wrapped := startClient(t, settledVersion, []string{"XDG_STATE_HOME=" + harness.ShortDir(t)},
		harness.Binary(t), "wrap", "--log-level", "info", "--allow-private", "--url", url)
	through := wrapped.everything()
	for what, want := range beside {
		if diff := cmp.Diff(want, through[what]); diff != "" {
			t.Errorf("%s: beside -, through +\n%s", what, diff)
		}
		if strings.HasPrefix(want, "error: ") && !strings.Contains(what, "none") && !strings.Contains(what, "failing") {
			t.Errorf("%s: %s", what, want)
		}
	}
	first := wrapped.call("once", "echo", map[string]any{"message": "hello"})
	server.kill()
	startHTTPServer(t, port)
	if again := wrapped.call("once", "echo", map[string]any{"message": "hello"}); again != first {
		t.Errorf("sent again: %s, first %s", again, first)
	}
	if res, err := wrapped.try("other", "echo", map[string]any{"message": "there"}); err != nil || res.IsError {
		t.Errorf("after a restart: %v, %v", asText(t, res), err)
	}
}

// What wrappers record is looked after as a sidecar's records are, while they run and when they have
// ended.
func TestWrapIsLookedAfter(t *testing.T) {
	t.Parallel()
	home := harness.ShortDir(t)
	wrapped := startWrapped(t, home, []string{"--name", "its"}, there(t)(mcpservers.Everything()))
	if got := wrapped.call("a", "echo", map[string]any{"message": "hello"}); !strings.Contains(got, "hello") {
		t.Fatal(got)
	}
	look := func(id, want string) {
		t.Helper()
		out, _ := exec.Command(harness.Binary(t), "find", "--state", filepath.Join(home, "sidecall"), "--tenant", "wrap its", "--id", id).CombinedOutput() // its code is what it has found
		if !strings.Contains(string(out), want) {
			t.Errorf("%s: %s", want, out)
		}
	}
	look("a", "RAN")
	look("b", "NEVER SEEN")
	if got := wrapped.call("c", "echo", map[string]any{"message": "there"}); !strings.Contains(got, "there") {
		t.Error(got)
	}
	_ = wrapped.Close() // the wrapper ends with it
	look("c", "RAN")
	out, err := exec.Command(harness.Binary(t), "resolve", "--state", filepath.Join(home, "nobody")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no wrapper has recorded anything there") {
		t.Errorf("%v, %s", err, out)
	}
}

// Each command of those who look after a sidecar looks at the state that it is told of, and at no sidecar
// that its directory or environment names.
func TestEachCommandLooksAtTheState(t *testing.T) {
	t.Parallel()
	home, elsewhere := harness.ShortDir(t), t.TempDir()
	wrapped := startWrapped(t, home, []string{"--name", "its"}, there(t)(mcpservers.Everything()))
	if got := wrapped.call("a", "echo", map[string]any{"message": "hello"}); !strings.Contains(got, "hello") {
		t.Fatal(got)
	}
	_ = wrapped.Close()
	if err := os.WriteFile(filepath.Join(elsewhere, "sidecall.yaml"), []byte("operator: unix:///nowhere/o.sock\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), harness.Binary(t), append(args, "--state", filepath.Join(home, "sidecall"))...)
		cmd.Dir, cmd.Env = elsewhere, append(os.Environ(), "SIDECALL_OPERATOR=unix:///nowhere/o.sock")
		return cmd
	}
	for _, args := range [][]string{
		{"find", "--tenant", "wrap its", "--id", "a"}, {"resolve", "list"}, {"approvals", "list"}, {"audit"}, {"receipts", "verify"},
		{"conversations", "list"}, {"conversations", "show", "c-1", "--tenant", "wrap its"}, {"conversations", "undo", "c-1", "--plan", "--tenant", "wrap its"},
	} {
		out, _ := command(args...).CombinedOutput() // its code is what it has found
		if text := string(out); strings.Contains(text, "nowhere") || strings.Contains(text, "Internal") || strings.Contains(text, "the sidecar failed") || strings.Contains(text, "Usage:") {
			t.Errorf("%v: %s", args, text)
		}
	}
	pages := command("console")
	out, err := pages.StdoutPipe()
	if err != nil || pages.Start() != nil {
		t.Fatal("the console does not start", err)
	}
	defer func() { _, _ = pages.Process.Kill(), pages.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	page, err := (&http.Client{Jar: jar}).Get(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = page.Body.Close() }()
	text, err := io.ReadAll(page.Body)
	if err != nil || page.StatusCode != http.StatusOK || strings.Contains(string(text), "nowhere") {
		t.Errorf("%v, %d: %.2000s", err, page.StatusCode, text)
	}
}

// Progress of a call comes as it does without a wrapper.
func TestWrapPassesProgress(t *testing.T) {
	t.Parallel()
	c := startWrapped(t, harness.ShortDir(t), nil, there(t)(mcpservers.Everything()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	params := &mcp.CallToolParams{Name: "trigger-long-running-operation", Arguments: map[string]any{"duration": 0.2, "steps": 2}}
	params.SetProgressToken("tok")
	res, err := c.CallTool(ctx, params)
	if err != nil || res.IsError {
		t.Fatal(res, err)
	}
	for _, want := range []string{"progress 1", "progress 2"} {
		if got := <-c.notes; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The real file system server does its work through a wrapper, and says its own errors.
func TestWrapFilesystem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startWrapped(t, harness.ShortDir(t), []string{"--trust-annotations"}, there(t)(mcpservers.Filesystem(dir)))
	path := filepath.Join(dir, "a.txt")
	if got := c.call("w1", "write_file", map[string]any{"path": path, "content": "a line\n"}); !strings.Contains(got, "Successfully wrote") {
		t.Fatal(got)
	}
	edit := map[string]any{"path": path, "edits": []map[string]any{{"oldText": "a line\n", "newText": "a line\na line\n"}}}
	first := c.call("e1", "edit_file", edit)
	if again := c.call("e1", "edit_file", edit); !strings.Contains(again, "+a line") || !strings.Contains(first, "+a line") {
		t.Errorf("first %s\nagain %s", first, again)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "a line\na line\n" { // a second edit would have made it three
		t.Errorf("%q, %v", text, err)
	}
	if got := c.call("r1", "read_text_file", map[string]any{"path": filepath.Join(dir, "none")}); !strings.Contains(got, "ENOENT") {
		t.Error(got)
	}
	if got := c.call("r2", "read_text_file", map[string]any{"pth": path}); !strings.Contains(got, "INVALID_ARGS") {
		t.Error(got)
	}
}

// effect is a call of server-everything whose effect is a request to a gate.
func (c *wrapClient) effect(id string, g *gate) <-chan string {
	answer := make(chan string, 1)
	go func() {
		res, err := c.try(id, fetch, map[string]any{"name": "page.gz", "data": g.URL, "outputType": "resource"})
		if err != nil {
			answer <- "error: " + err.Error()
			return
		}
		text, _ := json.Marshal(res)
		answer <- string(text)
	}()
	return answer
}

// Two clients that send one call, each through a wrapper of its own, have it made once: of two at
// once the second waits for the first.
func TestTwoWrappersHaveOneState(t *testing.T) {
	t.Parallel()
	g, state := startGate(t), harness.ShortDir(t)
	everything := there(t)(mcpservers.Everything())
	first, second := startWrapped(t, state, nil, everything), startWrapped(t, state, nil, everything)
	one := first.effect("t1", g)
	<-g.arrived
	two := second.effect("t1", g)
	close(g.open)
	for _, answer := range []string{<-one, <-two} {
		if !strings.Contains(answer, "page.gz") || strings.Contains(answer, `"isError":true`) {
			t.Error(answer)
		}
	}
	if n := g.effects.Load(); n != 1 {
		t.Errorf("it happened %d times", n)
	}
}

// When the wrapper is killed that has the store, the others go on with it, a call in flight among
// them; what the killed one was at is of unknown outcome for all, and is not made again.
func TestTheWrapperWithTheStoreIsKilled(t *testing.T) {
	t.Parallel()
	mine, theirs, state := startGate(t), startGate(t), harness.ShortDir(t)
	everything := there(t)(mcpservers.Everything())
	t.Cleanup(func() { close(theirs.open) })          // the server of a wrapper that was killed waits for it
	holder := startWrapped(t, state, nil, everything) // the first has it
	other := startWrapped(t, state, nil, everything)
	lost := holder.effect("lost", theirs)
	<-theirs.arrived
	kept := other.effect("kept", mine)
	<-mine.arrived
	if err := holder.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := <-lost; !strings.HasPrefix(got, "error: ") {
		t.Errorf("of a wrapper that was killed: %s", got)
	}
	close(mine.open)
	if got := <-kept; !strings.Contains(got, "page.gz") || strings.Contains(got, `"isError":true`) {
		t.Errorf("a call in flight while the store changes hands: %s", got)
	}
	third := startWrapped(t, state, nil, everything)
	for _, c := range []*wrapClient{other, third} {
		if got := <-c.effect("lost", theirs); !strings.Contains(got, "OUTCOME_UNKNOWN") {
			t.Errorf("what was lost: %s", got)
		}
		if got := <-c.effect("kept", mine); !strings.Contains(got, "page.gz") {
			t.Errorf("what was kept: %s", got)
		}
	}
	if mine.effects.Load() != 1 || theirs.effects.Load() != 1 {
		t.Errorf("they happened %d and %d times", mine.effects.Load(), theirs.effects.Load())
	}
}

// A wrapper that is killed at any step of a call: sent again through another one, the call is
// answered from its record, made if it was not, or said to be of unknown outcome; it never happens
// twice.
func TestTheWrapperIsKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	everything := there(t)(mcpservers.Everything())
	for at, outcomes := range map[failpoint.Name]string{
		failpoint.AdmissionUnsent: "made", failpoint.AdmissionDurable: "unknown", failpoint.ClaimWon: "unknown",
		failpoint.RequestUnsent: "unknown", failpoint.RequestLeaving: "unknown", failpoint.ResponseRead: "unknown",
		failpoint.ReplyInterpreted: "unknown", failpoint.SettlementUnsent: "unknown", failpoint.SettlementDurable: "recorded",
		failpoint.ResultUnsent: "recorded", failpoint.ResultSent: "recorded",
	} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			g, state, mark := startGate(t), harness.ShortDir(t), "SIDECALL_TEST_DIR="+t.TempDir()
			close(g.open)
			failing := everything
			failing.Env = append(slices.Clone(failing.Env), mark, failpoint.Env+"="+string(at)+"=kill@1")
			first := <-startWrapped(t, state, nil, failing).effect("t1", g)
			if killed := strings.HasPrefix(first, "error: "); !killed && at != failpoint.ResultSent {
				t.Fatalf("it was not killed: %s", first)
			}
			harness.WaitFor(t, "the server of the wrapper that was killed to end", func() bool { return processWith(t, mark) == 0 })
			again := <-startWrapped(t, state, nil, everything).effect("t1", g)
			happened := g.effects.Load()
			switch outcomes {
			case "unknown":
				if !strings.Contains(again, "OUTCOME_UNKNOWN") || happened > 1 {
					t.Errorf("it happened %d times, and is answered %s", happened, again)
				}
			default:
				if !strings.Contains(again, "page.gz") || happened != 1 {
					t.Errorf("it happened %d times, and is answered %s", happened, again)
				}
			}
		})
	}
}

// A server that is killed in mid-call is started again; its call is not made again, and nobody else
// notices.
func TestTheWrappedServerIsKilled(t *testing.T) {
	t.Parallel()
	g := startGate(t)
	everything := there(t)(mcpservers.Everything())
	mark := "SIDECALL_TEST_DIR=" + t.TempDir()
	everything.Env = append(everything.Env, mark)
	c := startWrapped(t, harness.ShortDir(t), nil, everything)
	answer := c.effect("t1", g)
	<-g.arrived
	pid := 0
	for _, one := range processesWith(t, mark) {
		if one != c.cmd.Process.Pid {
			pid = one
		}
	}
	if pid == 0 {
		t.Fatal("the server's process is not to be found")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; !strings.Contains(got, "OUTCOME_UNKNOWN") {
		t.Error(got)
	}
	if got := <-c.effect("t1", g); !strings.Contains(got, "OUTCOME_UNKNOWN") {
		t.Error(got)
	}
	harness.WaitFor(t, "the server to be back", func() bool {
		return strings.Contains(c.call("", "echo", map[string]any{"message": "well?"}), "Echo: well?")
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := c.ListPrompts(ctx, nil); err != nil {
		t.Error(err)
	}
	if n := g.effects.Load(); n != 1 {
		t.Errorf("it happened %d times", n)
	}
}

// When the client goes, so do wrapper and server.
func TestTheWrapperEndsWithItsClient(t *testing.T) {
	t.Parallel()
	everything := there(t)(mcpservers.Everything())
	mark := "SIDECALL_TEST_DIR=" + t.TempDir()
	everything.Env = append(everything.Env, mark)
	c := startWrapped(t, harness.ShortDir(t), nil, everything)
	if len(processesWith(t, mark)) == 0 {
		t.Fatal("there is no server")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if left := processesWith(t, mark); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if state := c.cmd.ProcessState; state == nil || state.ExitCode() != 0 {
		t.Errorf("the wrapper ended with %v", state)
	}
}
