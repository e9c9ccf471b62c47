//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// newTerminal is a terminal, which the other end hangs up when it is closed.
func newTerminal(t *testing.T) (terminal, other *os.File) {
	t.Helper()
	other, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() }) // it may be closed already
	fd := int(other.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)); err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() }) // likewise
	return terminal, other
}

// A terminal that hangs up does not end the process in the middle of a call. An operator
// who knows SIGHUP from other programs reloads the config with it, at a terminal too.
func TestServeDrainsWhenItsTerminalHangsUp(t *testing.T) {
	t.Parallel()
	// Of a test that was started with nohup its sidecar would be one, too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	g := startGate(t)
	s := harness.New(t, oneTool(g.URL))
	var other *os.File
	s.Terminal, other = newTerminal(t)
	s.Run()
	if err := s.Terminal.Close(); err != nil { // the process has it
		t.Fatal(err)
	}
	slow := startSlow(t, s, g, "in-flight")
	s.Signal(syscall.SIGHUP)
	harness.WaitFor(t, "the reload", func() bool { return strings.Contains(s.Log(), "config taken over") })
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, "NOT_SERVING", func() bool {
		return healthOf(t, s, "") == healthpb.HealthCheckResponse_NOT_SERVING
	})
	s.Signal(syscall.SIGHUP) // the shell's, and then the terminal's
	_, err := execute(t, s, &sidecallv1.ExecuteToolRequest{ToolUseId: "late", ToolName: "act"})
	wantCode(t, err, codes.Unavailable, "nothing was started")
	close(g.open)
	if got := <-slow; got.err != nil || got.res.GetIsError() || !got.res.GetRecorded() {
		t.Errorf("the call in flight got %v, %v", got.res, got.err)
	}
	if code := s.Wait(); code != 0 {
		t.Errorf("exit code %d\n%s", code, s.Log())
	}
}

// logPipe is a pipe that a sidecar is to write its log to.
func logPipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, f := range []*os.File{read, write} {
			if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
				t.Error(err)
			}
		}
	})
	return read, write
}

// Whoever reads the log may end (`sidecall serve 2>&1 | head`, a log shipper that is
// updated): the sidecar goes on.
func TestServeOutlivesTheReaderOfItsLog(t *testing.T) {
	t.Parallel()
	up := startTill(t)
	up.Script("/act", upstream.Echo())
	read, write := logPipe(t)
	s := harness.New(t, up.tools("store: {memory: {}}\n"))
	s.Output = write
	s.Run()
	if err := errors.Join(read.Close(), write.Close()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"1", "2", "3"} { // each is logged after its answer
		if res := s.Call(callOf(id)); res.GetIsError() || !res.GetRecorded() {
			t.Errorf("%s: %v", id, res)
		}
	}
	s.Stop()
}

// A reader that has stopped reading keeps the sidecar neither from its calls nor from
// its end.
func TestServeEndsThoughNobodyReadsItsLog(t *testing.T) {
	t.Parallel()
	up := startTill(t)
	up.Script("/act", upstream.Echo())
	_, write := logPipe(t)
	for full := false; !full; { // until a byte does not fit
		if err := write.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := io.WriteString(write, strings.Repeat("x", 1<<16))
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		full = n == 0
	}
	s := harness.New(t, up.tools("store: {memory: {}}\n"))
	s.Output = write
	s.Run()
	if res := s.Call(callOf("1")); res.GetIsError() {
		t.Error(res)
	}
	s.Stop()
}
