package exectool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/process"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/deadline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shell is a tool that runs a script.
func shell(script string) Command { return Command{Argv: []string{"sh", "-c", script}} }

func open(t *testing.T, cfg Config) *Backend {
	t.Helper()
	cfg.Name = "scripts"
	cfg.Env = append(cfg.Env, "PATH="+os.Getenv("PATH"))
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// one is a backend with one tool, x.
func one(t *testing.T, c Command) *Backend {
	t.Helper()
	return open(t, Config{Tools: map[string]Command{"x": c}})
}

func invoke(b *Backend, call backend.Invocation) (tool.Reply, *tool.Failure) {
	call.Tool = "x"
	return b.Invoke(context.Background(), call)
}

func wantFailure(t *testing.T, f *tool.Failure, code tool.Code, evidence tool.Evidence, errorType string) {
	t.Helper()
	if f == nil {
		t.Fatalf("no failure, want %s", code)
	}
	if f.Code != code || f.Evidence != evidence || f.ErrorType != errorType {
		t.Errorf("failure is %s, %s, %s (%v); want %s, %s, %s", f.Code, f.Evidence, f.ErrorType, f.Err, code, evidence, errorType)
	}
}

func TestArgumentsArriveOnStandardInput(t *testing.T) {
	b := one(t, Command{Argv: []string{"cat"}})
	args := `{"text":"$(reboot); -rf \"quoted\"\n"}`
	reply, f := invoke(b, backend.Invocation{Args: []byte(args)})
	if f != nil {
		t.Fatal(f)
	}
	if string(reply.Text) != args || !reply.JSON || reply.Size != int64(len(args)) || reply.Cut {
		t.Errorf("reply is %+v", reply)
	}
}

func TestACommandThatIgnoresItsInputIsNoFailure(t *testing.T) {
	b := one(t, shell("echo fine"))
	args := fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 1<<20))
	if reply, f := invoke(b, backend.Invocation{Args: []byte(args)}); f != nil || string(reply.Text) != "fine\n" {
		t.Errorf("got %q, %v", reply.Text, f)
	}
}

func TestOnlyTheListedEnvironmentAndTheWorkingDirectory(t *testing.T) {
	t.Setenv("SIDECALL_TEST_SECRET", "s3cret")
	dir := t.TempDir()
	b := open(t, Config{Dir: dir, Env: []string{"GREETING=hello"}, Tools: map[string]Command{"x": shell("pwd; echo $GREETING; echo $SIDECALL_TEST_SECRET; echo $" + KeyVariable)}})
	for effect, key := range map[tool.Effect]string{tool.Keyed: "key-1", tool.Idempotent: ""} {
		reply, f := invoke(b, backend.Invocation{Effect: effect, IdempotencyKey: "key-1"})
		if f != nil {
			t.Fatal(f)
		}
		if want := dir + "\nhello\n\n" + key + "\n"; string(reply.Text) != want {
			t.Errorf("%s: the command says %q, want %q", effect, reply.Text, want)
		}
	}
}

func TestExitCodes(t *testing.T) {
	exits := map[int]Exit{
		1: {Success: true},
		2: {Code: tool.CodeInvalidArgs, Hint: "Send a path.", AllowedAlternatives: []string{"ls"}},
		3: {Hint: "Ask the operator."},
		4: {Code: tool.CodeDependencyUnavailable, NotExecuted: true},
		5: {Code: tool.CodeDependencyUnavailable},
	}
	tests := []struct {
		name        string
		script      string
		effect      tool.Effect
		cleanly     bool
		code        tool.Code
		evidence    tool.Evidence
		message     string
		hint        string
		callerFault bool
	}{
		{name: "zero", script: "echo ok"},
		{name: "listed as a success", script: "echo none; exit 1"},
		{name: "listed with a code", script: "echo bad path >&2; exit 2", code: tool.CodeInvalidArgs, evidence: tool.Definite, message: "bad path\n", hint: "Send a path.", callerFault: true},
		{name: "listed with a hint only", script: "exit 3", code: tool.CodeUnrecoverable, hint: "Ask the operator.", callerFault: true},
		{name: "listed as transient", script: "exit 5", code: tool.CodeDependencyUnavailable},
		{name: "listed as transient, may be repeated", script: "exit 5", effect: tool.Idempotent, code: tool.CodeDependencyUnavailable, evidence: tool.Definite},
		{name: "listed as not executed", script: "exit 4", code: tool.CodeDependencyUnavailable, evidence: tool.NotExecuted},
		{name: "not listed", script: "echo boom >&2; exit 9", code: tool.CodeUnrecoverable, message: "boom\n", callerFault: true},
		{name: "not listed, fails cleanly", script: "echo boom >&2; exit 9", cleanly: true, code: tool.CodeUnrecoverable, evidence: tool.Definite, message: "boom\n", callerFault: true},
		{name: "not listed, read only", script: "echo boom >&2; exit 9", effect: tool.ReadOnly, code: tool.CodeUnrecoverable, evidence: tool.Definite, message: "boom\n", callerFault: true},
		{name: "not listed, keyed", script: "echo boom >&2; exit 9", effect: tool.Keyed, code: tool.CodeUnrecoverable, evidence: tool.Definite, message: "boom\n", callerFault: true},
		{name: "nothing on stderr", script: "echo 'error: it broke'; exit 9", code: tool.CodeUnrecoverable, message: "error: it broke\n", callerFault: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := shell(tt.script)
			c.ExitCodes = exits
			reply, f := invoke(one(t, c), backend.Invocation{Effect: tt.effect, FailsCleanly: tt.cleanly})
			if tt.code == "" {
				if f != nil {
					t.Fatal(f)
				}
				return
			}
			if f == nil {
				t.Fatal("no failure")
			}
			wantFailure(t, f, tt.code, tt.evidence, fmt.Sprintf("exit_%d", f.Status))
			if f.Message != tt.message || f.Hint != tt.hint || f.CallerFault != tt.callerFault || f.Status != reply.Status {
				t.Errorf("failure is %+v with reply %+v", f, reply)
			}
		})
	}
}

func TestStandardErrorIsBounded(t *testing.T) {
	b := one(t, shell("yes chatter | head -c 1000000 >&2; echo the end >&2; exit 1"))
	_, f := invoke(b, backend.Invocation{})
	wantFailure(t, f, tool.CodeUnrecoverable, tool.Ambiguous, "exit_1")
	if len(f.Message) > 400 || // which a model is shown of it
		len(f.Message) > maxStderr+len("…") || !strings.HasSuffix(f.Message, "the end\n") {
		t.Errorf("message has %d bytes and ends with %q", len(f.Message), f.Message[len(f.Message)-20:])
	}
}

func TestWhatCannotBeStartedDidNotRun(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("\x7fnonsense"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		argv      []string
		errorType string
	}{
		"not in PATH":    {[]string{"no-such-program-here"}, "not_found"},
		"no such file":   {[]string{"/nonexistent/program"}, "not_found"},
		"not executable": {[]string{plain}, "permission_denied"},
		"not a program":  {[]string{broken}, "spawn_failed"},
	} {
		_, f := invoke(one(t, Command{Argv: tt.argv}), backend.Invocation{})
		if f == nil {
			t.Fatalf("%s: no failure", name)
		}
		wantFailure(t, f, tool.CodeUnrecoverable, tool.NotExecuted, tt.errorType)
	}
}

func TestAMachineOutOfProcessesMayHaveSomeLater(t *testing.T) {
	f := spawnFailure(&os.PathError{Op: "fork/exec", Path: "x", Err: syscall.EAGAIN})
	wantFailure(t, f, tool.CodeDependencyUnavailable, tool.NotExecuted, "no_resources")
}

func TestAnUnknownToolAndAClosedBackendRunNothing(t *testing.T) {
	b := one(t, shell("echo ran"))
	_, f := b.Invoke(context.Background(), backend.Invocation{Tool: "y"})
	wantFailure(t, f, tool.CodeInternal, tool.NotExecuted, "no_command")
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	_, f = invoke(b, backend.Invocation{})
	wantFailure(t, f, tool.CodeDependencyUnavailable, tool.NotExecuted, "closed")
}

// fifo is a named pipe that scripts open for writing to say that they are there
// and hold open while anything of them is alive.
func fifo(t *testing.T) (path string, opened func() *os.File) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "alive")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, func() *os.File {
		f, err := os.Open(path) // until somebody opens it for writing
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
}

// wantGone waits until nobody holds the pipe open any more.
func wantGone(t *testing.T, alive *os.File) {
	t.Helper()
	if _, err := io.Copy(io.Discard, alive); err != nil {
		t.Error(err)
	}
}

func TestACutOffCommandEndsWithAllItStarted(t *testing.T) {
	for name, script := range map[string]string{
		"obedient":             `exec 9>"$1"; sleep 1000 & wait`,
		"ignores SIGTERM":      `trap '' TERM; exec 9>"$1"; sleep 1000 & wait; wait`,
		"catches SIGTERM":      `trap 'exit 0' TERM; exec 9>"$1"; sleep 1000 & wait`,
		"fails on SIGTERM":     `trap 'exit 7' TERM; exec 9>"$1"; sleep 1000 & wait`,
		"child holds the pipe": `exec 9>"$1"; sleep 1000 & exec sleep 1000`,
	} {
		t.Run(name, func(t *testing.T) {
			path, opened := fifo(t)
			b := open(t, Config{Grace: 200 * time.Millisecond, Tools: map[string]Command{"x": {Argv: []string{"sh", "-c", script, "sh", path}}}})
			ctx, cancel := context.WithCancel(context.Background())
			alive := make(chan *os.File, 1)
			go func() {
				alive <- opened()
				cancel()
			}()
			_, f := b.Invoke(ctx, backend.Invocation{Tool: "x"})
			if name == "catches SIGTERM" && f == nil {
				// It says that it has finished, and that is believed.
				wantGone(t, <-alive)
				return
			}
			wantFailure(t, f, tool.CodeCancelled, tool.Ambiguous, "cancelled")
			wantGone(t, <-alive)
		})
	}
}

func TestATimeoutIsAmbiguous(t *testing.T) {
	path, opened := fifo(t)
	b := one(t, Command{Argv: []string{"sh", "-c", `exec 9>"$1"; sleep 1000`, "sh", path}})
	ctx, pass := deadline.On()
	go func() {
		opened()
		pass()
	}()
	_, f := b.Invoke(ctx, backend.Invocation{Tool: "x"})
	wantFailure(t, f, tool.CodeTimeout, tool.Ambiguous, "timeout")
	if f.CallerFault {
		t.Error("a command that hangs does not count against the backend")
	}

	_, f = b.Invoke(ctx, backend.Invocation{Tool: "x"})
	wantFailure(t, f, tool.CodeTimeout, tool.NotExecuted, "timeout")
}

func TestASignalIsAmbiguous(t *testing.T) {
	_, f := invoke(one(t, shell("echo half done >&2; kill -9 $$")), backend.Invocation{})
	wantFailure(t, f, tool.CodeUnrecoverable, tool.Ambiguous, "signal")
	if !strings.Contains(f.Constraint, "killed") || f.Message != "half done\n" {
		t.Errorf("failure is %+v", f)
	}
}

func TestADaemonLeftBehindNeitherHangsNorSurvives(t *testing.T) {
	path, opened := fifo(t)
	b := one(t, Command{Argv: []string{"sh", "-c", `{ exec 9>"$1"; sleep 1000; } & echo started`, "sh", path}})
	alive := make(chan *os.File, 1)
	go func() { alive <- opened() }()
	reply, f := invoke(b, backend.Invocation{})
	if f != nil {
		t.Fatal(f)
	}
	if string(reply.Text) != "started\n" {
		t.Errorf("the command says %q", reply.Text)
	}
	wantGone(t, <-alive)
}

func TestCloseEndsWhatRuns(t *testing.T) {
	path, opened := fifo(t)
	b := one(t, Command{Argv: []string{"sh", "-c", `exec 9>"$1"; sleep 1000`, "sh", path}})
	failure := make(chan *tool.Failure, 1)
	go func() {
		_, f := invoke(b, backend.Invocation{})
		failure <- f
	}()
	alive := opened()
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, <-failure, tool.CodeDependencyUnavailable, tool.Ambiguous, "shutdown")
	wantGone(t, alive)
}

func TestCloseWaitsOnlyAsLongAsItMay(t *testing.T) {
	path, opened := fifo(t)
	b := open(t, Config{Grace: 300 * time.Millisecond, Tools: map[string]Command{
		"x": {Argv: []string{"sh", "-c", `trap '' TERM; exec 9>"$1"; sleep 1000; sleep 1000`, "sh", path}}}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, f := invoke(b, backend.Invocation{})
		if f == nil {
			t.Error("no failure")
		}
	}()
	opened()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	<-done
}

func TestOutputIsBounded(t *testing.T) {
	t.Run("an effectful command comes to its end", func(t *testing.T) {
		ledger := filepath.Join(t.TempDir(), "ledger")
		b := one(t, Command{Argv: []string{"sh", "-c", `head -c 300000 /dev/zero | tr '\0' x; echo done > "$1"`, "sh", ledger}})
		reply, f := invoke(b, backend.Invocation{MaxBytes: 1000})
		if f != nil {
			t.Fatal(f)
		}
		if len(reply.Text) != 1000 || !reply.Cut || reply.Size != 300000 {
			t.Errorf("kept %d bytes of %d, cut %v", len(reply.Text), reply.Size, reply.Cut)
		}
		if _, err := os.Stat(ledger); err != nil {
			t.Error("the command did not come to its end")
		}
	})
	t.Run("an endless read-only command is ended", func(t *testing.T) {
		reply, f := invoke(one(t, shell("yes")), backend.Invocation{MaxBytes: 1000, Effect: tool.ReadOnly})
		if f != nil {
			t.Fatal(f)
		}
		if len(reply.Text) != 1000 || !reply.Cut {
			t.Errorf("kept %d bytes, cut %v", len(reply.Text), reply.Cut)
		}
	})
	t.Run("a read-only command that had said enough is as good, however it ended", func(t *testing.T) {
		r := &run{cmd: exec.Command("sh", "-c", "exit 3"), stderr: process.NewTail(10), stdout: output{limit: 10, full: func() {}}}
		_, _ = r.stdout.Write([]byte("eleven bytes"))
		_ = r.cmd.Run() // in the moment in which it would have been ended
		if reply, f := r.result(t.Context(), &backend.Invocation{}, nil); f != nil || !reply.Cut || reply.Status != 0 {
			t.Errorf("%+v, %v", reply, f)
		}
	})
	t.Run("an endless effectful command runs into its timeout", func(t *testing.T) {
		path, opened := fifo(t)
		ctx, pass := deadline.On()
		go func() {
			opened()
			pass()
		}()
		endless := Command{Argv: []string{"sh", "-c", `exec 9>"$1"; yes`, "sh", path}}
		reply, f := one(t, endless).Invoke(ctx, backend.Invocation{Tool: "x", MaxBytes: 1000})
		wantFailure(t, f, tool.CodeTimeout, tool.Ambiguous, "timeout")
		if len(reply.Text) > 1000 {
			t.Errorf("kept %d bytes", len(reply.Text))
		}
	})
}

func TestKindsOfOutput(t *testing.T) {
	for name, tt := range map[string]struct {
		data   string
		binary string
		json   bool
	}{
		"nothing":           {},
		"text":              {data: "plain\n"},
		"latin-1":           {data: "caf\xe9\n"},
		"colours":           {data: "\x1b[31mred\x1b[0m\n"},
		"a stray backspace": {data: "ab\bc"},
		"an object":         {data: " {\"a\":1}\n", json: true},
		"an array":          {data: "[1,2]", json: true},
		"a broken object":   {data: `{"a":`},
		"a number":          {data: "42\n"},
		"html":              {data: "<html><body>x"},
		"postscript":        {data: "%!PS-Adobe-3.0"},
		"png":               {data: "\x89PNG\x0D\x0A\x1A\x0A....", binary: "image/png"},
		"pdf":               {data: "%PDF-1.7\n", binary: "application/pdf"},
		"gzip":              {data: "\x1f\x8b\x08\x00\x00", binary: "application/x-gzip"},
		"NUL bytes":         {data: "ab\x00c", binary: "application/octet-stream"},
	} {
		o := output{limit: 100}
		if n, err := o.Write([]byte(tt.data)); n != len(tt.data) || err != nil {
			t.Fatal(n, err)
		}
		reply := o.reply()
		if reply.Binary != tt.binary || reply.JSON != tt.json || reply.Size != int64(len(tt.data)) {
			t.Errorf("%s: reply is %+v", name, reply)
		}
		if kept := string(reply.Text); (tt.binary == "" && kept != tt.data) || (tt.binary != "" && kept != "") {
			t.Errorf("%s: text is %q", name, kept)
		}
	}
}

func TestOfSeveralMistakesTheSameIsAlwaysNamed(t *testing.T) {
	for range 50 {
		_, err := New(Config{Name: "b", Tools: map[string]Command{"c": {Argv: []string{"x"}}, "a": {}, "b": {}}})
		if err == nil || err.Error() != "backend b: tool a: there is no program to run" {
			t.Fatal(err)
		}
	}
}

// held is a right to send.
type held bool

func (h held) Held() bool { return bool(h) }

// TestACommandIsNotStartedWithoutTheRight: it may act before it reads its input.
func TestACommandIsNotStartedWithoutTheRight(t *testing.T) {
	acted := filepath.Join(t.TempDir(), "acted")
	b := one(t, shell("touch "+acted))
	_, f := invoke(b, backend.Invocation{Right: held(false)})
	wantFailure(t, f, tool.CodeStoreUnavailable, tool.NotExecuted, "lease_lost")
	if _, err := os.Stat(acted); err == nil {
		t.Error("the command ran")
	}
	if _, f := invoke(b, backend.Invocation{Right: held(true)}); f != nil {
		t.Fatal(f)
	}
	if _, err := os.Stat(acted); err != nil {
		t.Error(err)
	}
}
