//go:build e2e

package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecall "github.com/sidecall/sidecall/clients/go"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// A worker that is killed in the middle of a call leaves an outcome that nobody knows;
// its id never runs again, not after the sidecar was killed too, nor at another worker.
func TestAWorkerThatIsKilledInMidCall(t *testing.T) { each(t, aWorkerThatIsKilledInMidCall) }

func aWorkerThatIsKilledInMidCall(t *testing.T, k kind) {
	y := start(t, k, local)
	p := y.hire(0)
	hanging := y.asked("1", "act", `{"key":"A","then":"hang"}`)
	y.ran("A")
	p.kill()
	want(t, <-hanging, "OUTCOME_UNKNOWN")
	y.hire(0)
	want(t, y.Call(request("1", "act", `{"key":"A","then":"hang"}`)), "OUTCOME_UNKNOWN")
	y.Kill()
	y.Run()
	y.hire(0)
	want(t, y.Call(request("1", "act", `{"key":"A","then":"hang"}`)), "OUTCOME_UNKNOWN")
	if n := y.count("ran A"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// A call that its function makes safe to repeat goes on at another worker.
func TestACallThatMayBeRepeatedGoesToAnotherWorker(t *testing.T) {
	each(t, aCallThatMayBeRepeatedGoesToAnotherWorker)
}

func aCallThatMayBeRepeatedGoesToAnotherWorker(t *testing.T, k kind) {
	y := start(t, k, local)
	y.hire(0)
	y.hire(0)
	want(t, y.Call(request("1", "again", `{"key":"A","then":"die in the first"}`)), "")
	if n := y.count("ran A"); n != 2 {
		t.Errorf("it ran %d times", n)
	}
}

// A sidecar that is killed finds its workers again, and what was done is answered from
// its record.
func TestASidecarThatIsKilled(t *testing.T) { each(t, aSidecarThatIsKilled) }

func aSidecarThatIsKilled(t *testing.T, k kind) {
	y := start(t, k, local)
	p := y.hire(0)
	before := y.Call(request("1", "act", `{"key":"A"}`))
	want(t, before, "")
	hanging := y.asked("2", "act", `{"key":"B","then":"hang"}`)
	y.ran("B")
	y.Kill()
	<-hanging
	y.Run()
	want(t, y.Call(request("2", "act", `{"key":"B","then":"hang"}`)), "OUTCOME_UNKNOWN")
	p.registered(2)
	after := y.Call(request("1", "act", `{"key":"A"}`))
	if !after.GetReplayed() || after.GetContent() != before.GetContent() {
		t.Errorf("got %v; want %v", after, before)
	}
	want(t, y.Call(request("2", "act", `{"key":"B","then":"hang"}`)), "OUTCOME_UNKNOWN")
	want(t, y.Call(request("3", "act", `{"key":"C"}`)), "")
	for _, key := range []string{"A", "B", "C"} {
		if n := y.count("ran " + key); n != 1 {
			t.Errorf("%s ran %d times", key, n)
		}
	}
}

// A sidecar that is stopped lets the calls of its workers end, and finds them again.
func TestASidecarThatIsStopped(t *testing.T) { each(t, aSidecarThatIsStopped) }

func aSidecarThatIsStopped(t *testing.T, k kind) {
	y := start(t, k, local+"defaults: {attempt_timeout: 2s}\n")
	p := y.hire(0)
	hanging := y.asked("1", "act", `{"key":"A","then":"hang"}`)
	y.ran("A")
	y.Signal(syscall.SIGTERM)
	want(t, <-hanging, "OUTCOME_UNKNOWN") // its time was over
	if code := y.Wait(); code != 0 {
		t.Errorf("it ended with %d\n%s", code, y.Log())
	}
	y.Run()
	p.registered(2)
	want(t, y.Call(request("2", "act", `{"key":"B"}`)), "")
}

// A program may call tools by the connection over which it serves its own.
func TestCallerAndWorkerOverOneConnection(t *testing.T) {
	t.Parallel()
	y := start(t, inGo, "backends: {local: {worker: {}, prefix: my_}}\n")
	client, err := sidecall.Dial("tcp://" + y.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	there := make(chan struct{})
	w, err := worker(y.ledger, 0, func() { close(there) })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- client.Work(ctx, w) }()
	<-there
	results, err := client.ExecuteTools(t.Context(),
		sidecall.Call{ToolUseID: "1", ToolName: "my_act", Arguments: `{"key":"A"}`, ConversationID: "c"},
		sidecall.Call{ToolUseID: "2", ToolName: "my_act", Arguments: `{"kee":"B"}`, ConversationID: "c"})
	if err != nil {
		t.Fatal(err)
	}
	want(t, results[0], "")
	want(t, results[1], "INVALID_ARGS")
	if e := results[1].GetError(); e.GetField() != "kee" || !strings.Contains(e.GetHint(), `Did you mean "key"?`) {
		t.Errorf("the schema of the struct does not correct it: %v", e)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTwoWorkersShareALoad(t *testing.T) { each(t, twoWorkersShareALoad) }

func twoWorkersShareALoad(t *testing.T, k kind) {
	y := start(t, k, local)
	one, two := y.hire(1), y.hire(1)
	a := y.asked("1", "undo", `{"key":"A","then":"hang"}`)
	y.ran("A")
	b := y.asked("2", "undo", `{"key":"B","then":"hang"}`)
	y.ran("B") // which it could not at the first
	one.kill()
	two.kill()
	want(t, <-a, "OUTCOME_UNKNOWN")
	want(t, <-b, "OUTCOME_UNKNOWN")
}

// A tool whose workers are away is listed and says so; nothing is sent, and the same id
// runs when they are back.
func TestAwayAndBack(t *testing.T) { each(t, awayAndBack) }

func awayAndBack(t *testing.T, k kind) {
	y := start(t, k, local)
	p := y.hire(0)
	p.signal(syscall.SIGTERM)
	<-p.end
	res := y.Call(request("1", "act", `{"key":"A"}`))
	want(t, res, "DEPENDENCY_UNAVAILABLE")
	if res.GetRecovery().GetRetryAfter().AsDuration() <= 0 || !res.GetRecovery().GetRetryable() || !strings.Contains(res.GetError().GetConstraint(), "no worker serves it now") {
		t.Errorf("it says %v", res)
	}
	if !slices.Contains(y.Tools(), "act") {
		t.Errorf("there are %v", y.Tools())
	}
	y.hire(0)
	want(t, y.Call(request("1", "act", `{"key":"A"}`)), "")
	if n := y.count("ran A"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// A caller that leaves ends a function that undoes what it has begun, and no other.
func TestACallerThatLeaves(t *testing.T) { each(t, aCallerThatLeaves) }

func aCallerThatLeaves(t *testing.T, k kind) {
	y := start(t, k, local)
	y.hire(0)
	for tool, ends := range map[string]bool{"undo": true, "act": false} {
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := y.Client.ExecuteTool(ctx, request(tool, tool, fmt.Sprintf(`{"key":%q,"then":"hang"}`, tool)))
			left <- err
		}()
		y.ran(tool)
		cancel()
		if err := <-left; status.Code(err) != codes.Canceled {
			t.Errorf("%s: %v", tool, err)
		}
		if ends {
			harness.WaitFor(t, "the function to end", func() bool { return y.count("ended "+tool) == 1 })
		} else if y.count("ended "+tool) != 0 {
			t.Errorf("%s was ended", tool)
		}
	}
}

// A worker that stands still is taken for dead; when it goes on it comes again, and what
// it says of the call that it had goes nowhere.
func TestAWorkerThatStandsStill(t *testing.T) { each(t, aWorkerThatStandsStill) }

func aWorkerThatStandsStill(t *testing.T, k kind) {
	y := start(t, k, "backends: {local: {worker: {heartbeat: 1s}}}\n")
	p := y.hire(0)
	hanging := y.asked("1", "act", `{"key":"A","then":"hang"}`)
	y.ran("A")
	p.signal(syscall.SIGSTOP)
	want(t, <-hanging, "OUTCOME_UNKNOWN")
	p.signal(syscall.SIGCONT)
	p.registered(2)
	want(t, y.Call(request("1", "act", `{"key":"A","then":"hang"}`)), "OUTCOME_UNKNOWN")
	want(t, y.Call(request("2", "act", `{"key":"B"}`)), "")
	if n := y.count("ran A"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// What a sidecar refuses is an error with a sentence, and nothing of it is there.
func TestWorkersThatAreRefused(t *testing.T) {
	t.Parallel()
	y := start(t, inGo, "backends: {local: {worker: {}}, sh: {exec: {}}}\ntools: {greet: {backend: sh, exec: {argv: [echo]}}}\n")
	none := start(t, inGo, "")
	nothing := func(context.Context, struct{}) (string, error) { return "", nil }
	for says, c := range map[string]struct {
		at     *yard
		worker *sidecall.Worker
		add    sidecall.Function
	}{
		`the name "greet" is that of a tool of the backend sh`: {y, &sidecall.Worker{Name: "w"}, sidecall.Function{Name: "greet"}},
		`there is no worker backend "sh"`:                      {y, &sidecall.Worker{Name: "w", Backend: "sh"}, sidecall.Function{Name: "x"}},
		`there is no effect 9`:                                 {y, &sidecall.Worker{Name: "w"}, sidecall.Function{Name: "x", Effect: 9}},
		`must be one of`:                                       {y, &sidecall.Worker{Name: "w"}, sidecall.Function{Name: "x", InputSchema: []byte(`{"properties":{"a":{"type":"text"}}}`)}},
		`deadline: it is`:                                      {y, &sidecall.Worker{Name: "w"}, sidecall.Function{Name: "x", Deadline: 100 * time.Hour}},
		`no worker backend is configured`:                      {none, &sidecall.Worker{Name: "w"}, sidecall.Function{Name: "x"}},
	} {
		client, err := sidecall.Dial("tcp://" + c.at.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() }) // nothing is sent any more
		if err := sidecall.Add(c.worker, sidecall.Function{Name: "good"}, nothing); err != nil {
			t.Fatal(err)
		}
		if err := sidecall.Add(c.worker, c.add, nothing); err != nil {
			t.Fatal(err)
		}
		if err := client.Work(t.Context(), c.worker); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v; want %s", err, says)
		}
	}
	if tools := y.Tools(); len(tools) != 2 {
		t.Errorf("there are %v", tools)
	}
}
