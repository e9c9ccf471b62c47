// Package harness runs the real sidecar, and what it needs around it, for the
// end-to-end tests: the built binary in a process of its own, on loopback ports
// that nobody else uses, with its own directory.
package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/failpoint"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/ports"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
	"github.com/sidecall/sidecall/test/testkit/transcript"
)

// startTimeout bounds the start of a process on a machine that is busy; endTimeout
// its end, for half of which a sidecar may wait for its calls.
const (
	startTimeout = 30 * time.Second
	endTimeout   = time.Minute
)

// reconnect finds a sidecar soon after it has started.
var reconnect = backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.3, Jitter: 0.2, MaxDelay: 250 * time.Millisecond}

// FreePort returns a loopback address that nothing listens on now, and that nobody
// takes before the test ends but the process that it is for.
func FreePort(tb testing.TB) string {
	tb.Helper()
	return ports.Free(tb, ports.First, ports.Last)
}

// Sidecar is a running sidecar.
type Sidecar struct {
	// Addr serves gRPC, Admin the admin page, both host:port. Operator is the socket
	// of operators, unix:///path.
	Addr, Admin, Operator string
	// Config is the path of the config file, Dir its directory.
	Config, Dir string
	Conn        *grpc.ClientConn
	Client      sidecallv1.ToolServiceClient
	// Output, when set before Run, takes what the process writes, instead of
	// Log: for loads whose log lines would fill the memory of the test.
	Output *os.File
	// Release, when set before Run, has the process run without the race
	// detector, whatever the environment says: for figures.
	Release bool
	// Terminal, when set before Run, is the terminal of the process, and of it alone.
	Terminal *os.File
	// Binary, when set before Run, is run instead of this version's.
	Binary string

	t     testing.TB
	env   []string
	fault string // see Fail
	cmd   *exec.Cmd
	log   *transcript.Transcript
	// exited is closed when the process has ended, as exit then says.
	exited chan struct{}
	exit   error
}

// Start runs a sidecar with the given rest of a config file (store, backends,
// tools, ...): listen, admin and operator are filled in here. It is stopped at the end of
// the test; a sidecar that does not stop properly fails the test.
func Start(tb testing.TB, config string, env ...string) *Sidecar {
	tb.Helper()
	s := New(tb, config, env...)
	s.Run()
	return s
}

// unwatched is for the many tests that make the same call as often as they like:
// budgets and the loop guard have tests of their own.
const unwatched = "default_profile: code\nprofiles: {code: {loop_guard: {off: true}}, interactive: {}, research: {}}\n"

// New prepares a sidecar and does not run it.
func New(tb testing.TB, config string, env ...string) *Sidecar {
	tb.Helper()
	dir := tb.TempDir()
	s := &Sidecar{
		Addr: FreePort(tb), Admin: FreePort(tb), Operator: "unix://" + filepath.Join(ShortDir(tb), "op.sock"), Dir: dir, Config: filepath.Join(dir, "sidecall.yaml"),
		t: tb, env: env, log: &transcript.Transcript{},
	}
	if !strings.Contains(config, "identity:") {
		// Each sidecar of a test serves one agent, and most tests have nothing to
		// say of conversations. What a sidecar requires otherwise has tests of its own.
		config = "identity: {require: []}\n" + config
	}
	if !strings.Contains(config, "profile") {
		config = unwatched + config
	}
	if !strings.Contains(config, "operator:") {
		config = "operator: " + s.Operator + "\n" + config
	}
	text := fmt.Sprintf("listen: [tcp://%s]\nadmin: %s\n%s", s.Addr, s.Admin, config)
	if err := os.WriteFile(s.Config, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	conn, err := grpc.NewClient("passthrough:///"+s.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableRetry(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second, Backoff: reconnect}))
	if err != nil {
		tb.Fatal(err)
	}
	s.Conn, s.Client = conn, sidecallv1.NewToolServiceClient(conn)
	tb.Cleanup(func() {
		if err := conn.Close(); err != nil {
			tb.Error(err)
		}
		s.Stop()
	})
	return s
}

// ShortDir is a directory of the test whose path leaves room for a socket's, which
// may be some 100 bytes long; that of TempDir has the name of the test in it.
func ShortDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "sc") //nolint:usetesting // TempDir has the name of the test in its path
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

// Operators is a client of the operator's surface.
func (s *Sidecar) Operators() sidecallv1.OperatorServiceClient {
	s.t.Helper()
	conn, err := grpc.NewClient(s.Operator, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return sidecallv1.NewOperatorServiceClient(conn)
}

// Run starts the process and waits until it takes calls.
func (s *Sidecar) Run() {
	s.t.Helper()
	s.launch()
	if err := s.answers(); err != nil {
		s.t.Fatalf("the sidecar did not start: %v\n%s", err, words(s.Log()))
	}
}

// answers waits until the process takes calls; an error when it ends before, or
// does not in time.
func (s *Sidecar) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	exited := s.exited // the next Run sets another
	go func() {        // ends with the process or this function
		select {
		case <-exited:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		_, err := s.Client.ListTools(ctx, &sidecallv1.ListToolsRequest{}, grpc.WaitForReady(true))
		// The connection to the process before may be noticed to be dead only now.
		if status.Code(err) != codes.Unavailable {
			return err
		}
	}
}

// launch starts the process.
func (s *Sidecar) launch() {
	s.t.Helper()
	binary, env := Binary(s.t), s.env
	if s.Release {
		binary = ReleaseBinary(s.t)
	}
	if s.Binary != "" {
		binary = s.Binary
	}
	if s.fault != "" {
		binary, env = FailpointBinary(s.t), append(slices.Clone(env), failpoint.Env+"="+s.fault)
	}
	s.cmd = exec.CommandContext(context.Background(), binary, "serve", "--config", s.Config)
	s.cmd.Dir = s.Dir
	s.cmd.Env = append(append(os.Environ(), raceOptions), env...)
	s.cmd.Stderr, s.cmd.Stdout = s.log, s.log
	if s.Output != nil {
		s.cmd.Stderr, s.cmd.Stdout = s.Output, s.Output
	}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if s.Terminal != nil {
		s.cmd.Stdin, s.cmd.SysProcAttr.Setsid, s.cmd.SysProcAttr.Setctty = s.Terminal, true, true // at descriptor 0
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	cmd, exited := s.cmd, make(chan struct{})
	s.exited = exited
	go func() { // ends with the process
		s.exit = cmd.Wait()
		close(exited)
	}()
}

// Kill ends the process with SIGKILL. One that had ended by itself before, be it
// a crash that nobody has noticed yet, fails the test.
func (s *Sidecar) Kill() {
	s.t.Helper()
	s.Signal(syscall.SIGKILL)
	switch signal, err := s.AwaitDeath(); {
	case err != nil:
		s.t.Fatalf("it was to be killed, but %v\n%s", err, words(s.Log()))
	case signal != syscall.SIGKILL:
		s.t.Fatalf("it was to be killed, but it was ended by: %v\n%s", signal, words(s.Log()))
	}
}

// Signal sends a signal to the process. One that has ended already is left to
// whoever waits for it, and sees how.
func (s *Sidecar) Signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Fatal(err)
	}
}

// Wait waits for the process to end by itself and returns its exit code.
func (s *Sidecar) Wait() int {
	s.t.Helper()
	cmd := s.cmd
	s.cmd = nil
	select {
	case <-s.exited:
		var exit *exec.ExitError
		if s.exit != nil && !errors.As(s.exit, &exit) {
			s.t.Fatal(s.exit)
		}
	case <-time.After(endTimeout):
		s.t.Fatalf("the sidecar did not end\n%s", words(s.Log()))
	}
	return cmd.ProcessState.ExitCode()
}

// Stop ends the process with SIGTERM and checks that it ends well. It does
// nothing when the process is not running.
func (s *Sidecar) Stop() {
	s.t.Helper()
	if s.cmd == nil {
		return
	}
	s.Signal(syscall.SIGTERM)
	if code := s.Wait(); code != 0 {
		s.t.Errorf("the sidecar ended with exit code %d\n%s", code, words(s.Log()))
	}
}

// Log returns what the process has written.
func (s *Sidecar) Log() string { return s.log.String() }

// TakeLog is Log since the last TakeLog.
func (s *Sidecar) TakeLog() string { return s.log.Take() }

// Get fetches a page of the admin address.
func (s *Sidecar) Get(path string) (status int, body string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Admin+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, b.String()
}

// Call makes one call; the context of the test bounds it.
func (s *Sidecar) Call(req *sidecallv1.ExecuteToolRequest) *sidecallv1.ExecuteToolResponse {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	res, err := s.Client.ExecuteTool(ctx, req)
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", req.GetToolName(), err, words(s.Log()))
	}
	return res
}

// WaitFor waits until a condition holds, and fails the test when it does not in
// time.
func WaitFor(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !condition() {
		if time.Now().After(deadline) {
			tb.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(20 * time.Millisecond) // between two looks at the condition
	}
}

// Tools returns the names of the tools that can be called now.
func (s *Sidecar) Tools() []string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	res, err := s.Client.ListTools(ctx, &sidecallv1.ListToolsRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	names := make([]string, len(res.GetTools()))
	for i, t := range res.GetTools() {
		names[i] = t.GetName()
	}
	return names
}

// CLI runs a command of the binary to its end.
func CLI(tb testing.TB, args ...string) (code int, stdout, stderr string) {
	tb.Helper()
	cmd := exec.CommandContext(context.Background(), Binary(tb), args...)
	cmd.Env = append(os.Environ(), raceOptions)
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		tb.Fatal(err)
	}
	code = cmd.ProcessState.ExitCode()
	if code == raceExitCode { // which a test that waits for a failure would take for one
		tb.Fatalf("sidecall %s: exit code %d\n%s", strings.Join(args, " "), code, words(errOut.String()))
	}
	return code, out.String(), errOut.String()
}

// Redis starts a real redis-server on a free port; it ends with the test. The
// test fails when there is no redis-server. Package redisserver has the other
// kinds.
func Redis(tb testing.TB, args ...string) (addr string) {
	tb.Helper()
	return redisserver.Start(tb, redisserver.Options{Args: args}).Addr
}

// PID is the id of the process.
func (s *Sidecar) PID() int { return s.cmd.Process.Pid }

// Up reports whether the process has not ended.
func (s *Sidecar) Up() bool {
	select {
	case <-s.exited:
		return false
	default:
		return s.cmd != nil
	}
}

// AwaitDeath waits for the process to end and returns the signal that ended it;
// an error when it ended otherwise, or did not end in time.
func (s *Sidecar) AwaitDeath() (syscall.Signal, error) {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(endTimeout):
		return 0, fmt.Errorf("the sidecar at %s did not end in %s", s.Addr, endTimeout)
	}
	state := s.cmd.ProcessState
	s.cmd = nil
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal(), nil
	}
	return 0, fmt.Errorf("the sidecar at %s ended with exit code %d", s.Addr, state.ExitCode())
}
