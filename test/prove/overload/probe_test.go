//go:build prove

package overload

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/failpoint"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
)

// probation is one breaker that trips and is probed, again and again.
type probation struct {
	world   *world
	plant   *plant
	openFor time.Duration

	runs, violations int
	refused          int           // calls that found it open
	slowest          time.Duration // from open to closed
}

// A probe that hangs, or that panics, must not hold the breaker in half-open: it
// lets another call through within twice the open time.
func TestLostProbe(t *testing.T) {
	for _, lost := range []struct {
		name, fault string
		prove       func(t *testing.T, p *probation)
	}{
		{"hangs", "probe lost in half-open", proveHangingProbe},
		{"panics", "probe panics in half-open", provePanickingProbe},
	} {
		for _, store := range stores {
			t.Run(lost.name+"/"+store, func(t *testing.T) {
				t.Parallel() // the load is light
				p := startProbation(t, store)
				lost.prove(t, p)
				if p.refused == 0 {
					broken(t, &p.violations, "no call ever found the breaker open")
				}
				proof.Report(t, proof.Row{
					Fault: lost.fault, Store: store, Runs: p.runs, Violations: p.violations,
					Figure: fmt.Sprintf("closed again %s or sooner after it opened, with open_for %s", p.slowest.Round(10*time.Millisecond), p.openFor),
				})
			})
		}
	}
}

const (
	// tripping failures in a row open the breaker.
	tripping = 2
	// probeMoment is for everything but the open times, in full.
	probeMoment = time.Second
)

func startProbation(t *testing.T, store string) *probation {
	t.Helper()
	// So long in full that a moment is little of twice that.
	p := &probation{plant: startPlant(t, 1000, 0), openFor: proof.Pick(500*time.Millisecond, 5*time.Second)}
	p.world = startWorld(t, store, fmt.Sprintf(`
defaults: {retry: {max_attempts: 1}, attempt_timeout: 1m, deadline: 2m}
backends: {up: {http: {base_url: %q, allow_private: true}, breaker: {failures: %d, window: 1m, open_for: %s}}}
%s`, p.plant.URL, tripping, p.openFor, mixed))
	// The only one that finds a sidecar at once that was started again.
	p.world.clients = []sidecallv1.ToolServiceClient{p.world.Client}
	return p
}

// trip makes as many calls fail as open the breaker, and returns an instant at
// which it was open for certain.
func (p *probation) trip(t *testing.T) time.Time {
	t.Helper()
	p.plant.answers(func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusInternalServerError)
		return true
	})
	prefix := p.world.load("trip")
	for n := range tripping {
		answer := answerOf(p.world.call(t.Context(), n, "get", fmt.Sprint(prefix, n)))
		if answer.Code == OK || answer.Attempts != 1 || strings.HasPrefix(answer.Code, "grpc") {
			t.Fatalf("%s after %d attempts, want a failed attempt", answer.Code, answer.Attempts)
		}
	}
	p.plant.answers(nil)
	return time.Now()
}

// asked is what came of calls that were made until the breaker let one through.
type asked struct {
	answer  Answer // of that one
	refused int
	// late is how much later than it may the breaker has refused.
	late time.Duration
}

// ask calls until the breaker lets one through. It may refuse those that are
// asked in its open time since an instant, and no other: a busy machine may ask
// later, and nothing makes that the breaker's fault.
func (p *probation) ask(ctx context.Context, prefix string, since time.Time) (a asked) {
	for n := 0; ; n++ {
		began := time.Now()
		a.answer = answerOf(p.world.call(ctx, n, "get", fmt.Sprint(prefix, n)))
		if a.answer.Code != "CIRCUIT_OPEN" {
			return a
		}
		a.refused++
		a.late = max(a.late, began.Sub(since)-p.openFor)
		if a.late > 2*p.openFor || pause(ctx, 10*time.Millisecond) != nil {
			return a
		}
	}
}

// judge counts what the breaker did in one of its two open times.
func (p *probation) judge(t *testing.T, what string, a asked, want string) {
	t.Helper()
	p.refused += a.refused
	if a.late > 0 {
		broken(t, &p.violations, "run %d: %s: still refused %s after its open time", p.runs, what, a.late)
	}
	if a.answer.Code != want || a.answer.Attempts != 1 {
		broken(t, &p.violations, "run %d: %s: %s after %d attempts, want %s after one", p.runs, what, a.answer.Code, a.answer.Attempts, want)
	}
}

// recovered asks until a call works after the probe was lost, and judges that.
func (p *probation) recovered(t *testing.T, tripped, lost time.Time) {
	t.Helper()
	p.judge(t, "the call after it", p.ask(t.Context(), p.world.load("next"), lost), OK)
	took := time.Since(tripped)
	p.slowest = max(p.slowest, took)
	// In short the open times are no longer than a busy machine may take for
	// anything; what judge says of each of them holds all the same.
	if proof.Full() && took > 2*p.openFor+probeMoment {
		broken(t, &p.violations, "run %d: closed again %s after it opened", p.runs, took)
	}
}

// A probe that hangs for much longer than the breaker may wait for it loses its
// place. Its caller still gets its result.
func proveHangingProbe(t *testing.T, p *probation) {
	t.Helper()
	for range proof.Runs(2, 12) {
		p.runs++
		tripped := p.trip(t)
		hung, letGo := make(chan time.Time, 1), make(chan struct{})
		var probes atomic.Int64
		p.plant.answers(func(_ http.ResponseWriter, req *http.Request) bool {
			if probes.Add(1) > 1 {
				return false
			}
			hung <- time.Now()
			select {
			case <-letGo:
				return false
			case <-req.Context().Done():
				return true
			}
		})
		probe := make(chan asked, 1)
		prefix := p.world.load("probe")
		go func() { probe <- p.ask(t.Context(), prefix, tripped) }() // ends with the deadline of its last call
		select {
		case at := <-hung:
			p.recovered(t, tripped, at)
		case a := <-probe:
			t.Fatalf("run %d: no probe: %+v", p.runs, a)
		}
		close(letGo)
		p.judge(t, "the probe", <-probe, OK)
	}
}

// A probe that panics has failed, wherever it does: before the backend has sent
// its request, or when the answer is there, where nothing of the backend catches
// it.
func provePanickingProbe(t *testing.T, p *probation) {
	t.Helper()
	steps := []failpoint.Name{failpoint.RequestUnsent, failpoint.ReplyInterpreted}
	for run := range proof.Runs(2, 12) {
		p.runs++
		p.world.Stop()
		p.world.Fail(fmt.Sprintf("%s=panic@%d", steps[run%len(steps)], tripping+1))
		p.world.Run()
		tripped := p.trip(t)
		p.judge(t, "the probe", p.ask(t.Context(), p.world.load("probe"), tripped), "INTERNAL")
		p.recovered(t, tripped, time.Now())
	}
}
