//go:build prove

package crash

import (
	"fmt"
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

// left is what a death leaves of the call in whose middle it came.
type left int

const (
	nothing left = iota // no durable claim
	claimed             // a claim, and nothing sent
	ran                 // a claim, and the upstream has done its work
	settled             // the result
)

// step is a place to die at.
type step struct {
	at failpoint.Name
	// each is how often a call comes by there, which that it is to die at, from 1.
	each, which int
	left        left
	// slow: the answer is held back, so that the lease has to be renewed.
	slow bool
}

// outside is the place that is no failpoint: the process is killed from outside
// while the upstream, its work done, holds the answer back.
const outside = failpoint.Name("upstream")

// everyStep are the steps that both stores have.
var everyStep = []step{
	{at: failpoint.AdmissionUnsent, each: 1, which: 1, left: nothing},
	{at: failpoint.AdmissionDurable, each: 1, which: 1, left: claimed},
	{at: failpoint.ClaimWon, each: 1, which: 1, left: claimed},
	{at: failpoint.RequestUnsent, each: 1, which: 1, left: claimed},
	{at: failpoint.RequestLeaving, each: 1, which: 1, left: claimed},
	{at: outside, left: ran},
	{at: failpoint.ResponseHeaders, each: 1, which: 1, left: ran},
	{at: failpoint.ResponseRead, each: 1, which: 1, left: ran},
	{at: failpoint.ReplyInterpreted, each: 1, which: 1, left: ran},
	{at: failpoint.SettlementUnsent, each: 1, which: 1, left: ran},
	{at: failpoint.SettlementDurable, each: 1, which: 1, left: settled},
	{at: failpoint.ResultUnsent, each: 1, which: 1, left: settled},
	{at: failpoint.ResultSent, each: 1, which: 1, left: settled},
	{at: failpoint.RenewalUnsent, which: 1, left: ran, slow: true},
	{at: failpoint.RenewalDurable, which: 1, left: ran, slow: true},
}

// commitSteps are those of the embedded store: a call commits its claim, and
// then its settlement.
var commitSteps = []step{
	{at: failpoint.CommitUnwritten, each: 2, which: 1, left: nothing},
	{at: failpoint.CommitUnsynced, each: 2, which: 1, left: claimed},
	{at: failpoint.CommitSynced, each: 2, which: 1, left: claimed},
	{at: failpoint.CommitUnwritten, each: 2, which: 2, left: ran},
	{at: failpoint.CommitUnsynced, each: 2, which: 2, left: settled},
	{at: failpoint.CommitSynced, each: 2, which: 2, left: settled},
}

// shortLease is short enough to wait for.
const shortLease = time.Second

// Its claims are decided at the next start: the lease is so long that a wait
// for it would be noticed.
func TestKilledAtEveryStepEmbedded(t *testing.T) {
	t.Parallel()
	p := newKills(t, "embedded", append(append([]step{}, everyStep...), commitSteps...))
	p.run(t, 4, func(*testing.T) string { return embeddedStore }, time.Hour)
}

// The next incarnation of the same instance decides them likewise.
func TestKilledAtEveryStepRedis(t *testing.T) {
	t.Parallel()
	p := newKills(t, "redis", everyStep)
	store := startRedis(t)
	p.run(t, 8, func(*testing.T) string { return store }, time.Hour)
}

// kills is the proof for one store.
type kills struct {
	*tally
	world *world
	store string
	runs  []kill
	next  atomic.Int64
}

// kill is one run: a place and the tool of the call that is killed there.
type kill struct {
	step
	run  int
	tool string
}

func newKills(t *testing.T, store string, steps []step) *kills {
	t.Helper()
	p := &kills{tally: newTally(), world: startWorld(t), store: store}
	for i := range proof.Runs(len(steps)*len(tools), 1000) {
		p.runs = append(p.runs, kill{step: steps[i%len(steps)], run: i, tool: tools[i/len(steps)%len(tools)]})
	}
	return p
}

func (p *kills) run(t *testing.T, width int, store func(*testing.T) string, lease time.Duration) {
	t.Helper()
	workers(t, width, func(t *testing.T, worker int) {
		normal := harness.New(t, p.world.config(store(t), lease))
		renewing := harness.New(t, p.world.config(store(t), shortLease))
		for i := p.next.Add(1) - 1; int(i) < len(p.runs); i = p.next.Add(1) - 1 {
			k := p.runs[i]
			if k.slow {
				p.one(t, renewing, k)
			} else {
				p.one(t, normal, k)
			}
		}
	})
	p.finish(t)
}

// one is one run: a life with a death at the step, and a life after it.
func (p *kills) one(t *testing.T, s *harness.Sidecar, k kill) {
	t.Helper()
	first := p.liveAndDie(t, s, k)
	s.Fail("")
	s.Run()
	began := time.Now()
	p.checkStart(t, s, k)
	second := p.sendAll(t, s, k)
	p.most("ms until all was decided", int(time.Since(began).Milliseconds()))
	p.judge(t, k, first, second)
	third := p.sendAll(t, s, k)
	for id, answer := range third {
		if !answer.GetReplayed() || !sameAnswer(answer, second[id]) {
			p.broken(t, "%v: %s was answered %v, and then %v", k, id, second[id], answer)
		}
	}
	p.checkLedger(t, k)
	end(s)
}

// victim is the id of the call that is killed, others are the ones before it.
func (k kill) victim() string           { return fmt.Sprintf("%d-victim", k.run) }
func (k kill) other(tool string) string { return fmt.Sprintf("%d-%s", k.run, tool) }
func (k kill) String() string {
	return fmt.Sprintf("run %d: %s killed at %s (%d)", k.run, k.tool, k.at, k.which)
}
func (k kill) unknown() bool { return k.tool == act && (k.left == claimed || k.left == ran) }
func (k kill) ids() (tools map[string]string) {
	tools = map[string]string{k.victim(): k.tool}
	for _, tool := range k.others() {
		tools[k.other(tool)] = tool
	}
	return tools
}

// hit is which hit of the process the fault is for: the calls before it come by
// there too.
func (k kill) hit() int { return k.which + k.each*len(k.others()) }

// others are the tools of the calls before it. Where the renewal of a lease is
// what kills there are none: on a busy machine one of them might be renewed.
func (k kill) others() []string {
	if k.slow {
		return nil
	}
	return tools
}

// liveAndDie is the first life: a few calls that end well, and the one that is
// killed at its step. It returns the answers that were heard.
func (p *kills) liveAndDie(t *testing.T, s *harness.Sidecar, k kill) map[string]*response {
	t.Helper()
	hit := k.hit()
	if k.at != outside {
		s.Fail(fmt.Sprintf("%s=kill@%d", k.at, hit))
	}
	s.Run()
	answers := map[string]*response{}
	for _, tool := range k.others() {
		answer, err := send(t, s, tool, k.other(tool))
		if err != nil || answer.GetIsError() || !answer.GetRecorded() || answer.GetReplayed() {
			p.broken(t, "%v: with nothing amiss the answer is %v, %v", k, answer, err)
			continue
		}
		answers[k.other(tool)] = answer
	}
	answer, err := p.sendVictim(t, s, k)
	switch {
	case err == nil && k.at == failpoint.ResultSent:
		answers[k.victim()] = answer
	case !isUnavailable(err):
		p.broken(t, "%v: the call was answered %v, %v", k, answer, err)
	}
	signal, err := s.AwaitDeath()
	said := fmt.Sprintf("failpoint %s: kill at hit %d", k.at, hit)
	if log := s.TakeLog(); err != nil || signal != syscall.SIGKILL || k.at != outside && !strings.Contains(log, said) {
		p.broken(t, "%v: the process did not die there: %v, %v\n%s", k, signal, err, log)
		return answers
	}
	p.add("kills", 1)
	return answers
}

// sendVictim sends the call that does not survive.
func (p *kills) sendVictim(t *testing.T, s *harness.Sidecar, k kill) (answer *response, err error) {
	t.Helper()
	if k.at != outside && !k.slow {
		return send(t, s, k.tool, k.victim())
	}
	held := p.world.hold(k.victim())
	var call errgroup.Group
	call.Go(func() (err error) {
		answer, err = p.sendHeld(t, s, k.tool, k.victim())
		return err
	})
	if k.at == outside {
		held.await(t)
		s.Signal(syscall.SIGKILL)
	}
	return answer, call.Wait()
}

// checkStart looks at the record of the killed call as soon as there is
// somebody to ask. It is decided by then.
func (p *kills) checkStart(t *testing.T, s *harness.Sidecar, k kill) {
	t.Helper()
	execution, err := record(t, s, k.victim())
	if err != nil {
		p.broken(t, "%v: %v", k, err)
		return
	}
	state := execution.GetState()
	var wrong bool
	switch {
	case k.left == nothing:
		wrong = state != sidecallv1.ExecutionState_EXECUTION_STATE_UNSPECIFIED
	case k.left == settled:
		wrong = state != sidecallv1.ExecutionState_EXECUTION_STATE_DONE
	case k.tool == act:
		wrong = state != sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN
	default:
		wrong = state != sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN
	}
	if wrong {
		p.broken(t, "%v: after the start its record is %v", k, execution)
	}
}

// sendAll sends every call of a run again, at the same time.
func (p *kills) sendAll(t *testing.T, s *harness.Sidecar, k kill) map[string]*response {
	t.Helper()
	ids := k.ids()
	answers := make(chan *response, len(ids))
	var group errgroup.Group
	for id, tool := range ids {
		group.Go(func() error {
			answer, err := p.sendHeld(t, s, tool, id)
			if err == nil {
				answers <- answer
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		p.broken(t, "%v: %v", k, err)
	}
	close(answers)
	byID := map[string]*response{}
	for answer := range answers {
		byID[answer.GetToolUseId()] = answer
	}
	p.add("calls", len(byID))
	return byID
}

// judge compares the answers before the death with those after it.
func (p *kills) judge(t *testing.T, k kill, first, second map[string]*response) {
	t.Helper()
	for id, before := range first {
		if after := second[id]; !after.GetReplayed() || !sameAnswer(before, after) {
			p.broken(t, "%v: %s was answered %v, and after the restart %v", k, id, before, after)
			continue
		}
		p.add("identical", 1)
	}
	after := second[k.victim()]
	unknown := after.GetError().GetCode() == "OUTCOME_UNKNOWN"
	switch {
	case k.unknown() && unknown && after.GetRecovery() != nil:
		p.add("unknown", 1)
	case k.unknown(), after.GetIsError():
		p.broken(t, "%v: sent again, it is answered %v", k, after)
	case after.GetReplayed() != (k.left == settled):
		p.broken(t, "%v: sent again, replayed is %t: %v", k, after.GetReplayed(), after)
	case k.left == settled:
		p.add("found done", 1)
	default:
		p.add("run again", 1)
	}
}

// executions is how often the upstream must have done the work of the killed
// call in the end.
func (k kill) executions() int {
	switch {
	case k.tool == act && k.left == claimed:
		return 0
	case k.tool == look && k.left == ran:
		return 2 // reading twice harms nobody
	default:
		return 1
	}
}

func (p *kills) checkLedger(t *testing.T, k kill) {
	t.Helper()
	for _, tool := range k.others() {
		if n := p.world.ledger.Executions(k.other(tool)); n != 1 {
			p.broken(t, "%v: %s was executed %d times", k, k.other(tool), n)
		}
	}
	if n := p.world.ledger.Executions(k.victim()); n != k.executions() {
		p.broken(t, "%v: it was executed %d times, want %d", k, n, k.executions())
	}
	if k.tool == pay && k.left == ran && p.world.requests(k.victim()) != 2 {
		p.broken(t, "%v: the upstream was asked %d times, want 2", k, p.world.requests(k.victim()))
	}
}

// finish looks at the ledger once more, as it is on disk.
func (p *kills) finish(t *testing.T) {
	t.Helper()
	executions := p.world.onDisk(t)
	for _, k := range p.runs {
		for id, tool := range k.ids() {
			if n := executions[id]; tool != look && n > 1 {
				p.broken(t, "%v: the ledger holds %s %d times", k, id, n)
			}
		}
	}
	if n := p.of("kills"); n != len(p.runs) {
		p.broken(t, "%d of %d runs died where they should", n, len(p.runs))
	}
	proof.Report(t, proof.Row{
		Fault: "kill -9 at every step of a call", Store: p.store, Runs: p.of("kills"), Violations: p.violations,
		Figure: fmt.Sprintf("%d calls sent again, %d replays identical, %d unknown, %d found done, %d run again; all decided within %d ms; %d claims too slow for the lease",
			p.of("calls"), p.of("identical"), p.of("unknown"), p.of("found done"), p.of("run again"),
			p.of("ms until all was decided"), p.of("lease too short")),
	})
}
