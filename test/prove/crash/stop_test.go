//go:build prove

package crash

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/sidecall/sidecall/internal/failpoint"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

const (
	stateDone    = sidecallv1.ExecutionState_EXECUTION_STATE_DONE
	stateNotRun  = sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN
	stateUnknown = sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN
)

// An owner that is stopped past its lease, and then goes on, finds its call
// decided by another sidecar, and neither repeats it nor overwrites its record.
// What the other could not know, it says: that the call ran after all, or that
// nothing was sent.
func TestOwnerStoppedPastItsLease(t *testing.T) {
	t.Parallel()
	p := &stops{stopping: newStopping(t, proof.Runs(4, 100))}
	config := p.world.config(startRedis(t), shortLease)
	p.other = harness.Start(t, config)
	workers(t, 8, func(t *testing.T, _ int) {
		owner := harness.New(t, config)
		p.each(func(k stop) { p.one(t, owner, k) })
	})
	p.finish(t)
}

// stops is the proof.
type stops struct {
	*stopping

	other *harness.Sidecar // gets the duplicates
}

// one is one run: the owner stops, the other sidecar answers a duplicate, the
// owner goes on.
func (p *stops) one(t *testing.T, owner *harness.Sidecar, k stop) {
	t.Helper()
	owner.Fail("")
	if k.at != "" {
		owner.Fail(string(k.at) + "=stop@1")
	}
	owner.Run()
	defer end(owner)
	call, answers := p.stopOwner(t, owner, k)
	if n := p.world.ledger.Executions(k.id()); (n == 1) != k.ran || n > 1 {
		p.broken(t, "%v: executed %d times when it stopped", k, n)
	}
	duplicate, err := p.sendHeld(t, p.other, k.tool, k.id())
	if err != nil {
		p.broken(t, "%v: the duplicate: %v", k, err)
	}
	p.judgeDuplicate(t, k, duplicate)
	before, err := record(t, p.other, k.id())
	if err != nil {
		p.broken(t, "%v: %v", k, err)
	}

	owner.Signal(syscall.SIGCONT)
	if err := call.Wait(); err != nil {
		p.broken(t, "%v: the owner's caller: %v", k, err)
		return
	}
	late := <-answers
	p.judgeLate(t, k, late)
	p.judgeRecord(t, k, before, duplicate, late)
	want := 1
	if k.tool == look && k.sent() {
		want = 2 // reading twice harms nobody
	}
	p.judgeLedger(t, k, want)
	p.add("stops", 1)
}

// stopOwner sends the call and returns when its owner is stopped. The answer
// comes when it goes on.
func (p *stops) stopOwner(t *testing.T, owner *harness.Sidecar, k stop) (*errgroup.Group, chan *response) {
	t.Helper()
	call, answers := new(errgroup.Group), make(chan *response, 1)
	p.stopInside(t, owner, k, func() {
		call.Go(func() error {
			sending := p.sendHeld
			if !k.sent() {
				sending = send // there, that the claim ran out is what is to be said
			}
			answer, err := sending(t, owner, k.tool, k.id())
			answers <- answer
			return err
		})
	})
	return call, answers
}

// judgeDuplicate judges what the other sidecar says when the lease is over.
func (p *stops) judgeDuplicate(t *testing.T, k stop, answer *response) {
	t.Helper()
	code := answer.GetError().GetCode()
	switch {
	case k.tool == act && code == "OUTCOME_UNKNOWN":
		p.add("unknown", 1)
	case k.tool != act && !answer.GetIsError() && answer.GetRecorded() && !answer.GetReplayed():
		p.add("taken over", 1)
	default:
		p.broken(t, "%v: the duplicate is answered %v", k, answer)
	}
}

// judgeLate judges what the owner's own caller hears in the end.
func (p *stops) judgeLate(t *testing.T, k stop, answer *response) {
	t.Helper()
	switch {
	case !k.sent():
		// Nothing was sent, and nothing is after the lease: it says so, to its
		// caller and, where nobody took over, to the store.
		if answer.GetError().GetCode() != "STORE_UNAVAILABLE" || answer.GetRecorded() && k.tool != act || answer.GetRecovery().GetAttempts() != 0 {
			p.broken(t, "%v: nothing was sent, and its caller is told %v", k, answer)
		}
		p.add("not sent", 1)
	case answer.GetIsError():
		p.broken(t, "%v: the late result is %v", k, answer)
	case k.at == failpoint.SettlementUnsent && k.tool == act:
		// The time for the settlement may have passed while it was stopped. Then
		// it reaches the store by way of the journal, a moment later.
	case answer.GetRecorded() != (k.tool == act):
		// Where another took over, the record is the other's.
		p.broken(t, "%v: the late result is recorded %t: %v", k, answer.GetRecorded(), answer)
	}
}

// judgeRecord compares the record before the owner went on with the one after.
func (p *stops) judgeRecord(t *testing.T, k stop, before *sidecallv1.Execution, duplicate, late *response) {
	t.Helper()
	clearsUp, final := k.tool == act && k.sent(), stateDone
	if k.givenBack() {
		final = stateNotRun
	}
	if k.tool == act {
		harness.WaitFor(t, "what the late owner knows", func() bool {
			now, err := record(t, p.other, k.id())
			return err != nil || now.GetState() == final
		})
	}
	after, err := record(t, p.other, k.id())
	if err != nil {
		p.broken(t, "%v: %v", k, err)
		return
	}
	told, err := p.sendHeld(t, p.other, k.tool, k.id())
	if err != nil || told.GetReplayed() == k.givenBack() || told.GetIsError() {
		p.broken(t, "%v: in the end it is answered %v, %v", k, told, err)
		return
	}
	switch {
	case k.tool != act:
		// The one who took over has settled, and nobody else does. It has needed
		// one claim, or several where the lease was too short.
		if before.GetState() != stateDone || before.GetEpoch() < 2 || before.String() != after.String() || !sameAnswer(told, duplicate) {
			p.broken(t, "%v: the record was %v and is %v", k, before, after)
		}
	case clearsUp:
		// UNKNOWN → DONE, by the late owner of the same epoch.
		if before.GetState() != stateUnknown || after.GetState() != stateDone || after.GetEpoch() != before.GetEpoch() ||
			after.GetOwner() != before.GetOwner() || told.GetContent() != late.GetContent() {
			p.broken(t, "%v: the record was %v and is %v", k, before, after)
		}
		p.add("cleared up", 1)
	default:
		// UNKNOWN → NOT_RUN, by the same: the call may run, and has just done so.
		if before.GetState() != stateUnknown || after.GetState() != stateNotRun || after.GetEpoch() != 1 || after.GetOwner() != before.GetOwner() {
			p.broken(t, "%v: the record was %v and is %v", k, before, after)
		}
		p.add("given back", 1)
	}
}

func (p *stops) finish(t *testing.T) {
	t.Helper()
	p.judgeRuns(t)
	proof.Report(t, proof.Row{
		Fault: "owner stopped past its lease, then continued", Store: "redis", Runs: p.of("stops"), Violations: p.violations,
		Figure: fmt.Sprintf("%d unknown to the duplicate, %d of them cleared up and %d given back by the late owner, %d taken over and not overwritten, %d not sent after the lease; %d claims too slow for the lease",
			p.of("unknown"), p.of("cleared up"), p.of("given back"), p.of("taken over"), p.of("not sent"), p.of("lease too short")),
	})
}

// The embedded store has one owner at a time: while a process has the file, and
// be it stopped, no other gets it, and its leases need not end.
func TestStoppedOwnerKeepsTheEmbeddedFile(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	path := filepath.Join(t.TempDir(), "shared.db")
	config := w.config(fmt.Sprintf("{embedded: {path: %q}}", path), shortLease)
	tally := newTally()
	runs := proof.Runs(2, 20)
	for run := range runs {
		id := fmt.Sprintf("locked-%d", run)
		owner, other := harness.New(t, config), harness.New(t, config)
		owner.Fail(string(failpoint.ClaimWon) + "=stop@1")
		owner.Run()
		var call errgroup.Group
		call.Go(func() error {
			answer, err := send(t, owner, act, id)
			if answer.GetIsError() && answer.GetError().GetCode() != "STORE_UNAVAILABLE" {
				tally.broken(t, "%s: the owner's caller is told %v", id, answer)
			}
			return err
		})
		owner.AwaitStopped()
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if ready, code := other.Try(); ready || code != 3 || !strings.Contains(other.Log(), "another process is using it") || !strings.Contains(other.Log(), path) {
			tally.broken(t, "the other process: started %t, exit code %d: %s", ready, code, other.Log())
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			tally.broken(t, "the file has changed, %v", err)
		}
		owner.Signal(syscall.SIGCONT)
		if err := call.Wait(); err != nil {
			tally.broken(t, "%s: %v", id, err)
		}
		again, err := tally.sendHeld(t, owner, act, id)
		if err != nil || again.GetIsError() || w.ledger.Executions(id) != 1 {
			tally.broken(t, "%s: %v, %v, executed %d times", id, again, err, w.ledger.Executions(id))
		}
		owner.Kill()
	}
	proof.Report(t, proof.Row{
		Fault: "owner stopped past its lease, then continued", Store: "embedded", Runs: runs, Violations: tally.violations,
		Figure: "no other process gets the file, which stays as it is; each call runs once",
	})
}
