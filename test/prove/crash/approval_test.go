//go:build prove

package crash

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sidecall/sidecall/internal/failpoint"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// phase is what a call of which a person is asked goes through, each in a life of its own: between
// two of them its sidecar is killed too.
type phase int

const (
	holds  phase = iota // it is sent, and held
	allows              // a person allows it
	runs                // it is sent again, and runs
)

func (p phase) String() string { return [...]string{"hold", "approve", "run"}[p] }

// The steps of a hold and of an approval. A call that is held wins no claim and settles nothing.
var (
	holdSteps = []step{
		{at: failpoint.AdmissionUnsent, which: 1, left: nothing},
		{at: failpoint.AdmissionDurable, which: 1, left: settled},
		{at: failpoint.ResultSent, which: 1, left: settled},
	}
	approveSteps = []step{
		{at: failpoint.DecisionUnsent, which: 1, left: nothing},
		{at: failpoint.DecisionDurable, which: 1, left: settled},
	}
	oneCommit = []step{
		{at: failpoint.CommitUnwritten, which: 1, left: nothing},
		{at: failpoint.CommitUnsynced, which: 1, left: settled},
		{at: failpoint.CommitSynced, which: 1, left: settled},
	}
)

// approvals is the proof for one store.
type approvals struct {
	*tally
	world *world
	store string
	cases []approvalCase
	next  atomic.Int64
}

// approvalCase is one run: a place to die at, in a phase of a call.
type approvalCase struct {
	step
	phase phase
	run   int
	tool  string
}

func (c approvalCase) id() string { return fmt.Sprintf("%d-asked", c.run) }
func (c approvalCase) String() string {
	return fmt.Sprintf("run %d: %s killed at %s (%d) of %v", c.run, c.tool, c.at, c.which, c.phase)
}

// TestKilledAtEveryStepOfAnApprovalEmbedded and the next: a call is held, allowed and run, and its
// sidecar dies in the middle of each of these, at every step, and between them.
func TestKilledAtEveryStepOfAnApprovalEmbedded(t *testing.T) {
	t.Parallel()
	newApprovals(t, "embedded", oneCommit, commitSteps).prove(t, embeddedStore)
}

func TestKilledAtEveryStepOfAnApprovalRedis(t *testing.T) {
	t.Parallel()
	newApprovals(t, "redis", nil, nil).prove(t, startRedis(t))
}

func newApprovals(t *testing.T, store string, once, whole []step) *approvals {
	t.Helper()
	p := &approvals{tally: newTally(), world: startWorld(t), store: store}
	var all []approvalCase
	for of, steps := range [][]step{holds: slices.Concat(holdSteps, once), allows: slices.Concat(approveSteps, once), runs: slices.Concat(everyStep, whole)} {
		for _, s := range steps {
			if s.slow { // the renewal of its lease is that of any call
				continue
			}
			all = append(all, approvalCase{step: s, phase: phase(of), tool: act}, approvalCase{step: s, phase: phase(of), tool: pay})
		}
	}
	for i := range proof.Runs(len(all), 500) {
		c := all[i%len(all)]
		c.run = i
		p.cases = append(p.cases, c)
	}
	return p
}

// approving is a config whose tools ask a person first.
func (w *world) approving(store string) string {
	config := w.config(store, time.Hour)
	for _, name := range []string{act, pay} {
		config = strings.Replace(config, name+": {backend: up,", name+": {backend: up, approve_when: always,", 1)
	}
	return config
}

func (p *approvals) prove(t *testing.T, store string) {
	t.Helper()
	workers(t, 4, func(t *testing.T, _ int) {
		s := harness.New(t, p.world.approving(store))
		for i := p.next.Add(1) - 1; int(i) < len(p.cases); i = p.next.Add(1) - 1 {
			p.one(t, s, p.cases[i])
		}
	})
	executions := p.world.onDisk(t)
	for _, c := range p.cases {
		if n := executions[c.id()]; n > 1 {
			p.broken(t, "%v: the ledger holds it %d times", c, n)
		}
	}
	if n := p.of("kills"); n != len(p.cases) {
		p.broken(t, "%d of %d runs died where they should", n, len(p.cases))
	}
	proof.Report(t, proof.Row{
		Fault: "kill -9 at every step of hold, approve and run", Store: p.store, Runs: p.of("kills"), Violations: p.violations,
		Figure: fmt.Sprintf("%d ran once, %d unknown and not run again, %d holds and %d approvals found after the death, %d made again",
			p.of("ran"), p.of("unknown"), p.of("held"), p.of("approved"), p.of("made again")),
	})
}

// one is one run: the phases before the one in which the sidecar dies, that one, and the rest.
func (p *approvals) one(t *testing.T, s *harness.Sidecar, c approvalCase) {
	t.Helper()
	defer end(s)
	for of := holds; of < c.phase; of++ {
		s.Fail("")
		s.Run()
		if err := p.do(t, s, c, of); err != nil {
			p.broken(t, "%v: %v of it fails with nothing amiss: %v", c, of, err)
			return
		}
		end(s)
	}
	p.die(t, s, c)
	s.Fail("")
	s.Run()
	if c.phase < runs {
		p.found(t, s, c)
	}
	p.finish(t, s, c)
}

// do does one phase.
func (p *approvals) do(t *testing.T, s *harness.Sidecar, c approvalCase, of phase) error {
	t.Helper()
	if of == allows {
		return approve(t, s, c.id())
	}
	res, err := send(t, s, c.tool, c.id())
	if err == nil && (res.GetHold() != nil) != (of == holds) {
		return fmt.Errorf("it is answered %v", res)
	}
	return err
}

func approve(t *testing.T, s *harness.Sidecar, id string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := s.Operators().ApproveExecution(ctx, &sidecallv1.ApproveExecutionRequest{ToolUseId: id, DecidedBy: "ada", Reason: "proven"})
	return err
}

// die does the phase in which the sidecar is killed.
func (p *approvals) die(t *testing.T, s *harness.Sidecar, c approvalCase) {
	t.Helper()
	if c.at != outside {
		s.Fail(fmt.Sprintf("%s=kill@%d", c.at, c.which))
	}
	s.Run()
	var err error
	if c.at == outside {
		held := p.world.hold(c.id())
		var call errgroup.Group
		call.Go(func() error { return p.do(t, s, c, c.phase) })
		held.await(t)
		s.Signal(syscall.SIGKILL)
		err = call.Wait()
	} else {
		err = p.do(t, s, c, c.phase)
	}
	signal, gone := s.AwaitDeath()
	log := s.TakeLog()
	if gone != nil || signal != syscall.SIGKILL || c.at != outside && !strings.Contains(log, "failpoint "+string(c.at)+": kill") {
		p.broken(t, "%v: the process did not die there: %v, %v\n%s", c, signal, gone, log)
		return
	}
	if err == nil && c.at != failpoint.ResultSent || err != nil && !isUnavailable(err) {
		p.broken(t, "%v: who asked was told %v", c, err)
	}
	p.add("kills", 1)
}

// found looks at what the death has left of a hold or an approval: all of it, or nothing; and
// nothing has run.
func (p *approvals) found(t *testing.T, s *harness.Sidecar, c approvalCase) {
	t.Helper()
	execution, err := record(t, s, c.id())
	if err != nil {
		p.broken(t, "%v: %v", c, err)
		return
	}
	held, approved := execution.GetState() == sidecallv1.ExecutionState_EXECUTION_STATE_HELD, execution.GetApproval() != nil
	wantHeld, wantApproved := c.phase == allows || c.left == settled, c.phase == allows && c.left == settled
	if held != wantHeld || approved != wantApproved {
		p.broken(t, "%v: after the start its record is %v", c, execution)
	}
	if n := p.world.requests(c.id()); n != 0 {
		p.broken(t, "%v: the upstream was asked %d times before it was sent again", c, n)
	}
	switch {
	case approved:
		p.add("approved", 1)
	case held:
		p.add("held", 1)
	}
}

// finish goes on where the death has left the call, as its program and a person do, and judges
// what came of it.
func (p *approvals) finish(t *testing.T, s *harness.Sidecar, c approvalCase) {
	t.Helper()
	res, err := send(t, s, c.tool, c.id())
	if err == nil && res.GetHold() != nil {
		p.add("made again", 1)
		if c.phase == runs {
			p.broken(t, "%v: what was allowed is asked for again: %v", c, res)
		}
		if err = approve(t, s, c.id()); err == nil {
			res, err = send(t, s, c.tool, c.id())
		}
	}
	if err != nil {
		p.broken(t, "%v: %v", c, err)
		return
	}
	unknown := c.phase == runs && c.tool == act && (c.left == claimed || c.left == ran)
	executions := 1
	switch {
	case unknown && res.GetError().GetCode() == "OUTCOME_UNKNOWN":
		p.add("unknown", 1)
		if c.left == claimed {
			executions = 0
		}
	case unknown || res.GetIsError() || res.GetApproval().GetClaimedBy() != "ada":
		p.broken(t, "%v: sent again it is answered %v", c, res)
	default:
		p.add("ran", 1)
	}
	if n := p.world.ledger.Executions(c.id()); n != executions {
		p.broken(t, "%v: it was executed %d times, want %d", c, n, executions)
	}
	again, err := send(t, s, c.tool, c.id())
	if err != nil || !again.GetReplayed() || !sameAnswer(res, again) {
		p.broken(t, "%v: it was answered %v, and then %v, %v", c, res, again, err)
	}
}
