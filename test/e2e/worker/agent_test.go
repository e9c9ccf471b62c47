//go:build e2e

package worker_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/sidecall/sidecall/test/testkit/harness"
)

// What a worker, or an agent that is its own worker, goes through with a call, and what
// is left of the call when it is killed there: what the same id is answered with when
// somebody works again, and how often the function has run.
var steps = map[string]struct {
	code string
	ran  int
}{
	"invoked":   {code: "OUTCOME_UNKNOWN"},
	"begun":     {code: "OUTCOME_UNKNOWN"},
	"done":      {code: "OUTCOME_UNKNOWN", ran: 1},
	"answering": {code: "OUTCOME_UNKNOWN", ran: 1},
	// The result may have left the process, or not.
	"answered": {code: "either", ran: 1},
}

// A worker is killed at every step of a call: its function runs once at the most.
func TestAWorkerThatIsKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for i, step := range slices.Sorted(maps.Keys(steps)) {
		left := steps[step]
		onEach(t, i, []kind{inPy, inAio, inNode}, step, func(t *testing.T, store string, k kind) {
			t.Helper()
			y := start(t, k, local+stored(t, store))
			y.env = []string{"SIDECALL_TEST_WORKER_DIES=" + step}
			p := y.hire(0)
			res := y.Call(request("1", "act", `{"key":"A"}`))
			if left.code != "either" {
				want(t, res, left.code)
			}
			<-p.end
			y.env = nil
			y.hire(0)
			want(t, y.Call(request("1", "act", `{"key":"A"}`)), res.GetError().GetCode())
			if n := y.count("ran A"); n != left.ran {
				t.Errorf("it ran %d times; want %d", n, left.ran)
			}
		})
	}
}

// An agent that is its own worker is killed at every step of a turn, and runs the turn
// again with the same ids when it is back: its function runs once at the most.
func TestAnAgentThatIsItsOwnWorkerIsKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	turns := map[string]struct {
		code string
		ran  int
	}{
		"":          {ran: 1},
		"ready":     {ran: 1}, // nothing was sent, so it runs when the agent is back
		"invoked":   steps["invoked"],
		"begun":     steps["begun"],
		"done":      steps["done"],
		"answering": steps["answering"],
		"answered":  steps["answered"],
		"heard":     {ran: 1},
	}
	for i, step := range slices.Sorted(maps.Keys(turns)) {
		left := turns[step]
		onEach(t, i, []kind{inPy, inAio, inNode}, step, func(t *testing.T, store string, k kind) {
			t.Helper()
			y := start(t, k, local+stored(t, store))
			if step != "" {
				y.env = []string{"SIDECALL_TEST_WORKER_DIES=" + step}
				if _, killed := y.agent("A"); !killed {
					t.Fatal("it was not killed")
				}
				y.env = nil
			}
			got, _ := y.agent("A")
			if got.Code != left.code && !(left.code == "either" && (got.Code == "" || got.Code == "OUTCOME_UNKNOWN")) {
				t.Errorf("it is answered with %+v; want %q", got, left.code)
			}
			if n := y.count("ran A"); n != left.ran {
				t.Errorf("it ran %d times; want %d", n, left.ran)
			}
		})
	}
}

// answer is what an agent prints.
type answer struct {
	Code, Content string
	Replayed      bool
}

// agent runs an agent that makes one call, until its end.
func (y *yard) agent(id string) (got answer, killed bool) {
	y.t.Helper()
	return y.begin(id)()
}

// begin starts one, and gives what waits for its end.
func (y *yard) begin(id string) func() (got answer, killed bool) {
	y.t.Helper()
	cmd := y.command(0, id)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		y.t.Fatal(err)
	}
	return func() (answer, bool) { return y.end(cmd, &stdout, &stderr) }
}

func (y *yard) end(cmd *exec.Cmd, stdout, stderr *bytes.Buffer) (got answer, killed bool) {
	y.t.Helper()
	err := cmd.Wait()
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == -1 { //nolint:errorlint // os/exec returns exactly this
		return answer{}, true
	}
	if err != nil {
		y.t.Fatalf("%v\n%s", err, stderr.String())
	}
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		y.t.Fatalf("%v\n%s%s", err, stdout.String(), stderr.String())
	}
	return got, false
}

// The sidecar of such an agent is killed while its function runs: the agent waits for it
// to be back, and is told what is known.
func TestTheSidecarOfAnAgentThatIsItsOwnWorker(t *testing.T) {
	t.Parallel()
	for _, k := range []kind{inPy, inAio, inNode} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			s := harness.New(t, local)
			s.Fail("response.read=kill@1")
			s.Run()
			y := yardOf(t, k, s)
			ended := y.begin("A")
			if signal, err := s.AwaitDeath(); err != nil {
				t.Fatal(signal, err)
			}
			s.Fail("")
			s.Run()
			if got, _ := ended(); got.Code != "OUTCOME_UNKNOWN" {
				t.Errorf("it is answered with %+v", got)
			}
			if n := y.count("ran A"); n != 1 {
				t.Errorf("it ran %d times", n)
			}
		})
	}
}
