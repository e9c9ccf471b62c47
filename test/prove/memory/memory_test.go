//go:build prove

package memory

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// most is what the process may have taken at its peak, in bytes.
const most = 1 << 30

const config = `
backends:
  up: {http: {base_url: %q, allow_private: true}, max_in_flight: 1000, breaker: {failures: 1000000}}
defaults: {attempt_timeout: 5m, deadline: 10m}
tools:
  act: {backend: up, description: Does it., http: {method: POST, path: %s}}
`

// tally is what the callers were told.
type tally struct{ worked, refused, other atomic.Int64 }

func (c *tally) add(t *testing.T, res *sidecallv1.ExecuteToolResponse, err error) {
	switch {
	case err == nil && !res.GetIsError():
		c.worked.Add(1)
	case res.GetError().GetCode() == "OVERLOADED", status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "OVERLOADED"):
		c.refused.Add(1)
	case status.Code(err) == codes.DeadlineExceeded && strings.Contains(err.Error(), "nothing was started"):
		c.refused.Add(1) // its bytes were 10 s on their way: so many at once, on a busy machine
	default:
		c.other.Add(1)
		t.Errorf("a caller is told %.300v, %v", res, err)
	}
}

// atOnce makes n calls at the same time, and tells what came of each. It returns
// at once; who waits for ended waits for all of them.
func atOnce(t *testing.T, s *harness.Sidecar, n int, arguments string) (told *tally, ended *sync.WaitGroup) {
	t.Helper()
	told, ended = &tally{}, &sync.WaitGroup{}
	for i := range n {
		ended.Go(func() {
			res, err := s.Client.ExecuteTool(context.Background(), &sidecallv1.ExecuteToolRequest{
				ToolUseId: fmt.Sprint("toolu_", i), ToolName: "act", ConversationId: "c1", TurnId: "t1", ArgumentsJson: arguments,
			})
			told.add(t, res, err)
		})
	}
	return told, ended
}

var peakLine = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// peak is the most memory that a process has had, in bytes.
func peak(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := peakLine.FindSubmatch(text)
	if found == nil {
		t.Fatalf("the peak is not told:\n%s", text)
	}
	kilobytes, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// report is the row of a proof; sent is how many requests its upstream had.
func report(t *testing.T, s *harness.Sidecar, fault string, runs int, told *tally, sent int64) {
	t.Helper()
	violations, memory := int(told.other.Load()), peak(t, s.PID())
	if memory > most || told.worked.Load() == 0 {
		violations++
	}
	if sent != told.worked.Load() {
		violations++
		t.Errorf("%d calls worked, and %d were sent", told.worked.Load(), sent)
	}
	proof.Report(t, proof.Row{
		Fault: fault, Store: "embedded", Runs: runs, Violations: violations,
		Figure: fmt.Sprintf("peak %d MiB of RSS; %d worked, %d refused and not sent", memory>>20, told.worked.Load(), told.refused.Load()),
	})
}

func start(t *testing.T, base, path string) *harness.Sidecar {
	t.Helper()
	s := harness.New(t, fmt.Sprintf(config, base, path))
	s.Release = true // its memory is measured
	s.Run()
	return s
}

func TestEndlessBodies(t *testing.T) {
	bodies := upstream.New(upstream.NewLedger())
	var sent atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent.Add(1)
		bodies.ServeHTTP(w, r)
	}))
	t.Cleanup(up.Close)
	t.Cleanup(bodies.Close)
	s := start(t, up.URL, "/fault/endless")
	const calls = 250
	told, ended := atOnce(t, s, calls, `{}`)
	ended.Wait()
	report(t, s, "250 endless bodies at once", calls, told, sent.Load())
}

// Those that are let in are held until all the others have been told.
func TestLargeArguments(t *testing.T) {
	const calls = 400
	var atWork atomic.Int64
	open := make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		atWork.Add(1)
		<-open
	}))
	t.Cleanup(up.Close)
	s := start(t, up.URL, "/act")
	told, ended := atOnce(t, s, calls, `{"text":"`+strings.Repeat("x", 4<<20-1000)+`"}`)
	harness.WaitFor(t, "all calls to be at work or refused", func() bool {
		return atWork.Load()+told.refused.Load()+told.other.Load() == calls
	})
	small, err := s.Client.ExecuteTool(t.Context(), &sidecallv1.ExecuteToolRequest{
		ToolUseId: "small", ToolName: "act", ConversationId: "c1", ArgumentsJson: `{}`, ValidateOnly: true,
	})
	if err != nil {
		t.Errorf("a small one is told %v, %v", small, err)
	}
	close(open)
	ended.Wait()
	report(t, s, "400 arguments of 4 MiB at once", calls, told, atWork.Load())
}
