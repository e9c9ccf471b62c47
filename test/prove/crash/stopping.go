//go:build prove

package crash

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sidecall/sidecall/internal/failpoint"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// place is where the owner of a claim is stopped.
type place struct {
	name string
	at   failpoint.Name // empty: from outside, while the upstream holds the answer
	// late: it goes on to send what it had not sent when it was stopped.
	late bool
	ran  bool // the upstream had done its work
}

var places = []place{
	{name: "claim won, nothing sent", at: failpoint.ClaimWon},
	{name: "on the way to the connection", at: failpoint.RequestUnsent},
	// Between the last look at the lease and the first byte: the gap that nobody
	// can close. The call is then late, and still not made twice.
	{name: "lease checked, nothing sent", at: failpoint.RequestLeaving, late: true},
	{name: "in the attempt", ran: true},
	{name: "before the settlement", at: failpoint.SettlementUnsent, ran: true},
}

// stop is one run.
type stop struct {
	place
	run  int
	tool string
}

// givenBack says that nobody but the stopped owner can know that the call did
// not run, and that it does know.
func (k stop) givenBack() bool { return k.tool == act && !k.sent() }

// sent says that the owner sends the call: it has, or it does when it goes on.
func (k stop) sent() bool { return k.ran || k.late }

func (k stop) id() string { return fmt.Sprintf("stop-%d", k.run) }
func (k stop) String() string {
	return fmt.Sprintf("run %d: owner of %s stopped: %s", k.run, k.tool, k.name)
}

// stopping is what the proofs have in common that stop the owner of a claim.
type stopping struct {
	*tally
	world *world
	runs  []stop
	next  atomic.Int64
}

// newStopping has so many runs at each place.
func newStopping(t *testing.T, runs int) *stopping {
	t.Helper()
	p := &stopping{tally: newTally(), world: startWorld(t)}
	for i := range runs * len(places) {
		p.runs = append(p.runs, stop{place: places[i%len(places)], run: i, tool: tools[i/len(places)%len(tools)]})
	}
	return p
}

// each makes the runs that nobody else has begun.
func (p *stopping) each(one func(k stop)) {
	for i := p.next.Add(1) - 1; int(i) < len(p.runs); i = p.next.Add(1) - 1 {
		one(p.runs[i])
	}
}

// stopInside begins a call of an owner and returns when that is stopped in it.
func (p *stopping) stopInside(t *testing.T, owner *harness.Sidecar, k stop, begin func()) {
	t.Helper()
	var held *hold
	if k.at == "" {
		held = p.world.hold(k.id())
	}
	begin()
	if held != nil {
		held.await(t)
		owner.Signal(syscall.SIGSTOP)
	}
	owner.AwaitStopped()
	if held != nil {
		close(held.open) // the answer lies in the socket when it goes on
	}
}

// judgeLedger compares what really happened with how often it is to have.
func (p *stopping) judgeLedger(t *testing.T, k stop, want int) {
	t.Helper()
	if n := p.world.ledger.Executions(k.id()); n != want {
		p.broken(t, "%v: it was executed %d times, want %d", k, n, want)
	}
	if n := p.world.requests(k.id()); !k.sent() && n > 1 {
		p.broken(t, "%v: it was sent %d times: its owner sent it when it was no longer its own", k, n)
	}
}

// judgeRuns judges all of them together, by the ledger on the disk.
func (p *stopping) judgeRuns(t *testing.T) {
	t.Helper()
	executions := p.world.onDisk(t)
	for _, k := range p.runs {
		if n := executions[k.id()]; k.tool != look && n > 1 {
			p.broken(t, "%v: the ledger holds it %d times", k, n)
		}
	}
	if n := p.of("stops"); n != len(p.runs) {
		p.broken(t, "%d of %d runs came to their end", n, len(p.runs))
	}
}
