//go:build prove

package crash

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sidecall/sidecall/internal/failpoint"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// Bugs are survived where they happen: the call that meets one gets its one
// result, and the process, its other calls and its claims live on.
func TestPanicAtEveryStepEmbedded(t *testing.T) {
	t.Parallel()
	newPanics(t, "embedded", append(panicSteps(), commitSteps...)).run(t, 4, embeddedStore)
}

func TestPanicAtEveryStepRedis(t *testing.T) {
	t.Parallel()
	newPanics(t, "redis", panicSteps()).run(t, 4, startRedis(t))
}

// panicSteps are the steps at which code of the sidecar runs. The one before the
// first byte is in a goroutine of net/http, where a panic kills.
func panicSteps() (steps []step) {
	for _, s := range everyStep {
		if s.at != outside && s.at != failpoint.RequestLeaving && s.at != failpoint.ResultSent {
			steps = append(steps, s)
		}
	}
	return steps
}

// panics is the proof for one store.
type panics struct {
	*tally
	world *world
	store string
	runs  []kill
	next  atomic.Int64
}

func newPanics(t *testing.T, store string, steps []step) *panics {
	t.Helper()
	p := &panics{tally: newTally(), world: startWorld(t), store: store}
	for i := range proof.Runs(2, 12) * len(steps) {
		// The first round is of the tool that must not repeat.
		p.runs = append(p.runs, kill{step: steps[i%len(steps)], run: i, tool: tools[i/len(steps)%len(tools)]})
	}
	return p
}

func (p *panics) run(t *testing.T, width int, store string) {
	t.Helper()
	workers(t, width, func(t *testing.T, _ int) {
		// Where no renewal is wanted there is none: it would be a commit too.
		normal := harness.New(t, p.world.config(store, time.Hour))
		renewing := harness.New(t, p.world.config(store, shortLease))
		for i := p.next.Add(1) - 1; int(i) < len(p.runs); i = p.next.Add(1) - 1 {
			if k := p.runs[i]; k.slow {
				p.one(t, renewing, k)
			} else {
				p.one(t, normal, k)
			}
		}
	})
	if n := p.of("panics"); n != len(p.runs) {
		p.broken(t, "%d of %d runs panicked where they should", n, len(p.runs))
	}
	proof.Report(t, proof.Row{
		Fault: "panic at every step of a call", Store: p.store, Runs: p.of("panics"), Violations: p.violations,
		Figure: fmt.Sprintf("one result each: %d INTERNAL, %d OUTCOME_UNKNOWN, %d STORE_UNAVAILABLE, %d not disturbed; process up, no claim stuck",
			p.of("INTERNAL"), p.of("OUTCOME_UNKNOWN"), p.of("STORE_UNAVAILABLE"), p.of("")),
	})
}

// one is one run: a few calls, the one that meets the bug, and what is said of
// it afterwards.
func (p *panics) one(t *testing.T, s *harness.Sidecar, k kill) {
	t.Helper()
	hit := k.hit()
	s.Fail(fmt.Sprintf("%s=panic@%d", k.at, hit))
	s.Run()
	defer func() {
		if s.Up() {
			end(s)
		}
	}()
	for _, tool := range k.others() {
		if answer, err := send(t, s, tool, k.other(tool)); err != nil || answer.GetIsError() {
			p.broken(t, "%v: with nothing amiss the answer is %v, %v", k, answer, err)
		}
	}
	answer, err := p.sendVictim(t, s, k)
	if err != nil {
		p.broken(t, "%v: no result: %v\n%s", k, err, s.TakeLog())
		return
	}
	p.judge(t, s, k, answer)
	if !s.Up() {
		p.broken(t, "%v: the process has ended\n%s", k, s.TakeLog())
		return
	}
	s.Kill() // with it all that it wrote has arrived
	if said := fmt.Sprintf("failpoint %s: panic at hit %d\n", k.at, hit); !strings.Contains(s.TakeLog(), said) {
		p.broken(t, "%v: it did not panic there", k)
		return
	}
	p.add("panics", 1)
	if n := p.world.ledger.Executions(k.victim()); k.tool != look && n > 1 {
		p.broken(t, "%v: it was executed %d times", k, n)
	}
}

// sendVictim sends the call that meets the bug. A slow one is answered when its
// lease was renewed, after the panic.
func (p *panics) sendVictim(t *testing.T, s *harness.Sidecar, k kill) (answer *response, err error) {
	t.Helper()
	if !k.slow {
		return send(t, s, k.tool, k.victim())
	}
	held := p.world.hold(k.victim())
	var call errgroup.Group
	call.Go(func() (err error) {
		answer, err = p.sendHeld(t, s, k.tool, k.victim())
		return err
	})
	harness.WaitFor(t, "the panic", func() bool { return strings.Contains(s.Log(), "failpoint "+string(k.at)) })
	close(held.open)
	return answer, call.Wait()
}

// judge compares what the caller was told, and is told when it asks again, with
// what had been sent.
func (p *panics) judge(t *testing.T, s *harness.Sidecar, k kill, answer *response) {
	t.Helper()
	code := answer.GetError().GetCode()
	p.add(code, 1)
	if strings.HasPrefix(string(k.at), "commit.") {
		p.judgeLostStore(t, s, k, answer)
		return
	}
	if k.slow { // the renewal is not the call
		if answer.GetIsError() || !answer.GetRecorded() {
			p.broken(t, "%v: the answer is %v", k, answer)
		}
		p.expect(t, s, k, "the same answer", func(again *response) bool { return again.GetReplayed() && sameAnswer(answer, again) })
		return
	}
	// From here on the sidecar has begun to send, as far as it can know.
	sent := k.left == ran || k.left == settled || k.at == failpoint.RequestUnsent
	unsure := sent && k.tool == act
	if want := map[bool]string{true: "OUTCOME_UNKNOWN", false: "INTERNAL"}[unsure]; code != want {
		p.broken(t, "%v: the answer is %v, want %s", k, answer, want)
	}
	if strings.Contains(answer.GetContent(), "failpoint") || strings.Contains(answer.GetContent(), "goroutine") {
		p.broken(t, "%v: the model sees the panic: %v", k, answer)
	}
	switch {
	case k.left == settled:
		p.expect(t, s, k, "the recorded result", func(again *response) bool { return again.GetReplayed() && !again.GetIsError() })
	case unsure:
		p.expect(t, s, k, "the same answer", func(again *response) bool { return again.GetReplayed() && sameAnswer(answer, again) })
	default:
		p.expect(t, s, k, "it runs now", func(again *response) bool { return !again.GetReplayed() && !again.GetIsError() })
	}
}

// expect sends the call again, and once more: then nothing changes any more.
func (p *panics) expect(t *testing.T, s *harness.Sidecar, k kill, what string, right func(*response) bool) {
	t.Helper()
	again, err := send(t, s, k.tool, k.victim())
	if err != nil || !right(again) {
		p.broken(t, "%v: sent again, it is answered %v, %v; want %s", k, again, err, what)
		return
	}
	third, err := send(t, s, k.tool, k.victim())
	if err != nil || !third.GetReplayed() || !sameAnswer(again, third) {
		p.broken(t, "%v: sent a third time, it is answered %v, %v, before it was %v", k, third, err, again)
	}
}

// judgeLostStore judges a panic in the middle of a commit, after which nobody
// knows what the file holds: the store refuses everything until it is opened
// again, and then the file says what became of the call.
func (p *panics) judgeLostStore(t *testing.T, s *harness.Sidecar, k kill, answer *response) {
	t.Helper()
	switch code := answer.GetError().GetCode(); {
	case k.which == 1 && k.tool != look && code != "STORE_UNAVAILABLE",
		(k.which == 2 || k.tool == look) && answer.GetIsError(),
		answer.GetRecorded():
		p.broken(t, "%v: the answer is %v", k, answer)
	}
	if refused, err := send(t, s, act, k.victim()+"-next"); err != nil || refused.GetError().GetCode() != "STORE_UNAVAILABLE" {
		p.broken(t, "%v: the next call is answered %v, %v", k, refused, err)
	}
	if !s.Up() {
		p.broken(t, "%v: the process has ended", k)
	}
	s.Kill()
	s.Fail("")
	s.Run()
	again, err := send(t, s, k.tool, k.victim())
	if err != nil || again.GetIsError() && again.GetError().GetCode() != "OUTCOME_UNKNOWN" ||
		k.which == 1 && k.left == nothing && again.GetIsError() || k.left == settled && (again.GetIsError() || !again.GetReplayed()) {
		p.broken(t, "%v: after the restart it is answered %v, %v", k, again, err)
	}
	if next, err := send(t, s, act, k.victim()+"-next"); err != nil || next.GetIsError() {
		p.broken(t, "%v: after the restart the next call is answered %v, %v", k, next, err)
	}
}

// A bug that every call meets costs each call its result, and nothing else: the
// process stays, nothing runs twice, and the next version of the sidecar finds
// no claim in its way.
func TestPanicAtEveryCall(t *testing.T) {
	t.Parallel()
	p := &panics{tally: newTally(), world: startWorld(t)}
	steps := panicSteps()
	workers(t, len(steps), func(t *testing.T, i int) {
		s := harness.New(t, p.world.config(embeddedStore, shortLease))
		p.always(t, s, steps[i])
	})
	for id, n := range p.world.onDisk(t) {
		if strings.HasPrefix(id, act) && n > 1 {
			p.broken(t, "%s was executed %d times", id, n)
		}
	}
	if met := p.of("steps"); met != len(steps) {
		p.broken(t, "%d of %d bugs were met", met, len(steps))
	}
	proof.Report(t, proof.Row{
		Fault: "panic at every call", Store: "embedded", Runs: p.of("calls"), Violations: p.violations,
		Figure: fmt.Sprintf("at %d steps: one result for every call, %d panics, 0 processes ended", p.of("steps"), p.of("panics")),
	})
}

// always sends calls, and each of them again, to a sidecar with a bug at a step.
func (p *panics) always(t *testing.T, s *harness.Sidecar, at step) {
	t.Helper()
	s.Fail(string(at.at) + "=panic")
	s.Run()
	p.everyCall(t, at, "a call", func(tool, id string, first bool) (*response, error) {
		if at.slow && first {
			return p.sendUntilPanic(t, s, at, tool, id)
		}
		return send(t, s, tool, id)
	}, func(answer *response) bool { return answer.GetToolUseId() != "" })
	if !s.Up() {
		p.broken(t, "a bug at %s: the process has ended\n%s", at.at, s.Log())
		return
	}
	s.Kill()
	panicked := strings.Count(s.TakeLog(), "failpoint "+string(at.at))
	if panicked == 0 {
		p.broken(t, "a bug at %s: nobody met it", at.at)
		return
	}
	p.add("steps", 1)
	p.add("panics", panicked)
	s.Fail("")
	s.Run()
	p.everyCall(t, at, "afterwards a call", func(tool, id string, _ bool) (*response, error) {
		return p.sendHeld(t, s, tool, id)
	}, func(answer *response) bool {
		code := answer.GetError().GetCode()
		return code == "" || code == "OUTCOME_UNKNOWN" && strings.HasPrefix(answer.GetToolUseId(), act)
	})
}

// everyCall makes calls of every tool, each of them twice.
func (p *panics) everyCall(t *testing.T, at step, what string, call func(tool, id string, first bool) (*response, error), right func(*response) bool) {
	t.Helper()
	for i := range 4 {
		for _, tool := range tools {
			p.add("calls", 1)
			if answer, err := call(tool, fmt.Sprintf("%s-%s-%d", tool, at.at, i/2), i%2 == 0); err != nil || !right(answer) {
				p.broken(t, "a bug at %s: %s is answered %v, %v", at.at, what, answer, err)
			}
		}
	}
}

// sendUntilPanic sends a call whose answer is held back until its lease was to
// be renewed.
func (p *panics) sendUntilPanic(t *testing.T, s *harness.Sidecar, at step, tool, id string) (answer *response, err error) {
	t.Helper()
	said := "failpoint " + string(at.at)
	before := strings.Count(s.Log(), said)
	held := p.world.hold(id)
	var call errgroup.Group
	call.Go(func() (err error) {
		answer, err = p.sendHeld(t, s, tool, id)
		return err
	})
	harness.WaitFor(t, "the panic", func() bool { return strings.Count(s.Log(), said) > before })
	close(held.open)
	err = call.Wait()
	return answer, err
}
