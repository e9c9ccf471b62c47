//go:build prove

package crash

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// endsAsRival is how a process ends that another has succeeded.
const endsAsRival = 3

// An owner that is stopped is succeeded by the next process of its instance, long
// before its leases end. When it goes on it sends nothing but what it was about to
// write, claims, renews and settles nothing, and ends.
func TestAStoppedOwnerIsSucceeded(t *testing.T) {
	t.Parallel()
	p := &successions{stopping: newStopping(t, proof.Runs(3, 60))}
	store := startRedis(t)
	workers(t, 8, func(t *testing.T, worker int) {
		config := fmt.Sprintf("instance: shop-%d\n", worker) + p.world.config(store, time.Hour)
		owner, successor := harness.New(t, config), harness.New(t, config)
		p.each(func(k stop) { p.one(t, owner, successor, k) })
	})
	p.finish(t)
}

// successions is the proof.
type successions struct{ *stopping }

// one is one run: the owner stops, its successor starts and decides, the owner
// goes on and ends.
func (p *successions) one(t *testing.T, owner, successor *harness.Sidecar, k stop) {
	t.Helper()
	owner.Fail("")
	if k.at != "" {
		owner.Fail(string(k.at) + "=stop@1")
	}
	owner.Run()
	heard := p.stopOwner(t, owner, k)
	successor.Run()
	defer end(successor)
	decided, err := send(t, successor, k.tool, k.id())
	p.judgeDecision(t, k, decided, err)
	before, err := record(t, successor, k.id())
	if err != nil {
		p.broken(t, "%v: %v", k, err)
	}

	owner.Signal(syscall.SIGCONT)
	code, log := owner.Wait(), owner.TakeLog()
	if code != endsAsRival || !strings.Contains(log, "another process runs as instance") {
		p.broken(t, "%v: when it went on it ended with exit code %d\n%s", k, code, log)
	}
	if late := <-heard; late.GetRecorded() && !late.GetReplayed() {
		p.broken(t, "%v: when it went on it recorded %v", k, late)
	}
	after, err := record(t, successor, k.id())
	if err != nil || before.String() != after.String() {
		p.broken(t, "%v: the record was %v and is %v, %v", k, before, after, err)
	}
	want := 1
	switch {
	case k.tool == look && k.sent():
		want = 2 // reading twice harms nobody
	case k.tool == act && !k.sent():
		want = 0
	}
	p.judgeLedger(t, k, want)
	p.add("stops", 1)
}

// stopOwner sends the call and returns when its owner is stopped, and what its
// caller hears, if it hears anything.
func (p *successions) stopOwner(t *testing.T, owner *harness.Sidecar, k stop) <-chan *response {
	t.Helper()
	heard := make(chan *response, 1)
	p.stopInside(t, owner, k, func() {
		go func() { // ends with the process
			answer, _ := send(t, owner, k.tool, k.id()) // it may end without an answer
			heard <- answer
		}()
	})
	return heard
}

// judgeDecision judges what the successor says at once, while the lease runs on.
func (p *successions) judgeDecision(t *testing.T, k stop, answer *response, err error) {
	t.Helper()
	code := answer.GetError().GetCode()
	switch {
	case k.tool == act && code == "OUTCOME_UNKNOWN":
		p.add("unknown", 1)
	case k.tool != act && err == nil && !answer.GetIsError() && answer.GetRecorded() && !answer.GetReplayed():
		p.add("run again", 1)
	default:
		p.broken(t, "%v: its successor answers %v, %v", k, answer, err)
	}
}

func (p *successions) finish(t *testing.T) {
	t.Helper()
	p.judgeRuns(t)
	proof.Report(t, proof.Row{
		Fault: "owner stopped, succeeded by the next process of its instance, then continued", Store: "redis",
		Runs: p.of("stops"), Violations: p.violations,
		Figure: fmt.Sprintf("%d unknown at once, %d run again at once, under a lease of 1 h; every owner ended and settled nothing",
			p.of("unknown"), p.of("run again")),
	})
}
