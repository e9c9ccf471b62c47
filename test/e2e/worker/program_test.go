//go:build e2e

// Package worker_test runs real workers, in processes of their own, at a real sidecar,
// and takes one or the other away in the middle of a call.
package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sidecall "github.com/sidecall/sidecall/clients/go"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
	"github.com/sidecall/sidecall/test/testkit/transcript"
)

// The test binary is the workers' program too: it works at the sidecar that the
// variable names, and keeps its ledger in the directory.
const (
	sidecarVariable = "SIDECALL_TEST_WORKER_OF"
	ledgerVariable  = "SIDECALL_TEST_WORKER_LEDGER"
	placesVariable  = "SIDECALL_TEST_WORKER_PLACES"
)

func TestMain(m *testing.M) {
	if target := os.Getenv(sidecarVariable); target != "" {
		if err := work(target, ledger(os.Getenv(ledgerVariable))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// ledger is the file in which functions say, synced, that they have begun.
type ledger string

// note adds a line.
func (l ledger) note(line string) error {
	file, err := os.OpenFile(string(l), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line + "\n")
	return errors.Join(err, file.Sync(), file.Close())
}

// count is how many lines say so.
func (l ledger) count(line string) (n int) {
	text, err := os.ReadFile(string(l))
	if err != nil {
		return 0 // nothing has begun
	}
	for said := range strings.Lines(string(text)) {
		if said == line+"\n" {
			n++
		}
	}
	return n
}

// order is what a function is told: what to write down, and what then.
type order struct {
	Key  string `json:"key"`
	Then string `json:"then,omitempty" jsonschema:"hang, wait or die"`
}

// worker are the functions of the program.
func worker(l ledger, places int, registered func()) (*sidecall.Worker, error) {
	w := &sidecall.Worker{Name: "program", MaxInFlight: places, OnRegistered: func([]*sidecallv1.WorkerAccepted) { registered() }}
	act := func(ctx context.Context, in order) (string, error) {
		if err := l.note("ran " + in.Key); err != nil {
			return "", err
		}
		switch in.Then {
		case "hang":
			<-ctx.Done()
			return "", errors.Join(ctx.Err(), l.note("ended "+in.Key))
		case "wait":
			for l.count("let go") == 0 { // another process says so
				time.Sleep(5 * time.Millisecond)
			}
		case "die":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // it is on its way
		case "die in the first":
			if i, _ := sidecall.InvocationOf(ctx); i.Attempt == 1 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
		return fmt.Sprintf("%s by %d", in.Key, os.Getpid()), nil
	}
	return w, errors.Join(
		sidecall.Add(w, sidecall.Function{Name: "act", Description: "Acts."}, act),
		sidecall.Add(w, sidecall.Function{Name: "again", Effect: sidecall.Keyed}, act),
		sidecall.Add(w, sidecall.Function{Name: "undo", CancelWithCaller: true}, act),
		sidecall.Add(w, sidecall.Function{Name: "whoami", Effect: sidecall.ReadOnly}, func(context.Context, struct{}) (int, error) { return os.Getpid(), nil }),
	)
}

// work is the program.
func work(target string, l ledger) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client, err := sidecall.Dial(target)
	if err != nil {
		return err
	}
	defer client.Close()
	places := 0
	if said := os.Getenv(placesVariable); said != "" {
		if _, err := fmt.Sscan(said, &places); err != nil {
			return err
		}
	}
	w, err := worker(l, places, func() { fmt.Println("registered") })
	if err != nil {
		return err
	}
	return client.Work(ctx, w)
}

// program is a worker in a process of its own.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	said *transcript.Transcript
	end  chan struct{}
}

// kind is a kind of worker, by its language and what it serves calls with.
type kind string

const (
	inGo   kind = "go"
	inPy   kind = "python threads"
	inAio  kind = "python asyncio"
	inNode kind = "node"
)

// program is how a worker of this kind is started.
func (k kind) program(t *testing.T) (argv, env []string) {
	t.Helper()
	if how, ok := strings.CutPrefix(string(k), "python "); ok {
		python, err := mcpservers.Python()
		if err != nil {
			t.Fatal(err)
		}
		return []string{python, "-B", filepath.Join(harness.Root(), "test", "e2e", "python", "worker.py"), how},
			[]string{"PYTHONPATH=" + filepath.Join(harness.Root(), "clients", "python", "src")}
	}
	if k == inNode {
		if _, err := os.Stat(filepath.Join(harness.Root(), "clients", "node", "dist", "esm", "index.js")); err != nil {
			t.Fatalf("the Node client is not built (run make deps): %v", err)
		}
		return []string{"node", filepath.Join(harness.Root(), "test", "e2e", "node", "worker.mjs")}, nil
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self}, nil
}

// each runs a test with workers of every kind.
func each(t *testing.T, test func(t *testing.T, k kind)) {
	t.Helper()
	t.Parallel()
	for _, k := range []kind{inGo, inPy, inAio, inNode} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			test(t, k)
		})
	}
}

// yard is a sidecar with a worker backend, and the ledger of its workers.
type yard struct {
	*harness.Sidecar
	ledger

	t    *testing.T
	kind kind
	env  []string // of workers
}

const local = "backends: {local: {worker: {}}}\n"

// start runs a sidecar.
func start(t *testing.T, k kind, config string) *yard {
	t.Helper()
	return yardOf(t, k, harness.Start(t, config))
}

func yardOf(t *testing.T, k kind, s *harness.Sidecar) *yard {
	return &yard{Sidecar: s, ledger: ledger(filepath.Join(t.TempDir(), "ledger")), t: t, kind: k}
}

// hire starts a worker's process and waits until it is registered.
func (y *yard) hire(places int) *program {
	y.t.Helper()
	p := y.launch(places)
	p.registered(1)
	return p
}

func (y *yard) launch(places int) *program {
	y.t.Helper()
	p := &program{t: y.t, cmd: y.command(places), said: &transcript.Transcript{}, end: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		y.t.Fatal(err)
	}
	go func() { // ends with the process
		_ = p.cmd.Wait()
		close(p.end)
	}()
	y.t.Cleanup(p.kill)
	return p
}

// command is a worker's process, or an agent's.
func (y *yard) command(places int, more ...string) *exec.Cmd {
	y.t.Helper()
	argv, env := y.kind.program(y.t)
	argv = append(argv, more...)
	cmd := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), sidecarVariable+"=tcp://"+y.Addr, ledgerVariable+"="+string(y.ledger), fmt.Sprintf("%s=%d", placesVariable, places))
	cmd.Env = append(append(cmd.Env, env...), y.env...)
	return cmd
}

// registered waits until the worker was registered so often.
func (p *program) registered(times int) {
	p.t.Helper()
	harness.WaitFor(p.t, "a worker to be registered", func() bool {
		select {
		case <-p.end:
			p.t.Fatalf("the worker has ended:\n%s", p.said)
		default:
		}
		return strings.Count(p.said.String(), "registered\n") >= times
	})
}

func (p *program) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

func (p *program) kill() {
	p.signal(syscall.SIGKILL)
	<-p.end
}

// asked sends a call, and gives its result when it is there.
func (y *yard) asked(id, tool, args string) <-chan *sidecallv1.ExecuteToolResponse {
	done := make(chan *sidecallv1.ExecuteToolResponse, 1)
	go func() {
		res, err := y.Client.ExecuteTool(context.Background(), request(id, tool, args))
		if err != nil {
			res = &sidecallv1.ExecuteToolResponse{Content: err.Error(), IsError: true}
		}
		done <- res
	}()
	return done
}

func request(id, tool, args string) *sidecallv1.ExecuteToolRequest {
	return &sidecallv1.ExecuteToolRequest{ToolUseId: id, ToolName: tool, ArgumentsJson: args, ConversationId: "c"}
}

// ran waits until a function says that it has begun.
func (y *yard) ran(key string) {
	y.t.Helper()
	harness.WaitFor(y.t, "the function to begin", func() bool { return y.count("ran "+key) > 0 })
}

// want checks the code of a result; empty for none.
func want(t *testing.T, res *sidecallv1.ExecuteToolResponse, code string) {
	t.Helper()
	if got := res.GetError().GetCode(); got != code || res.GetIsError() != (code != "") {
		t.Errorf("%s: got %q, %q; want %q", res.GetToolUseId(), got, res.GetContent(), code)
	}
}
