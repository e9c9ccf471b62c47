//go:build prove

package overload

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// mixed are a tool of which nothing may be repeated and one that may be.
const mixed = `
tools:
  pay: {backend: up, effect: non_idempotent, http: {method: POST, path: /pay, query: {id: id}}, input_schema: {type: object, properties: {id: {type: string}}, required: [id]}}
  get: {backend: up, effect: read_only, http: {method: POST, path: /get, query: {id: id}}, input_schema: {type: object, properties: {id: {type: string}}, required: [id]}}
`

// mix makes every other call a payment.
func (w *world) mix(prefix string, refused *refusals) func(context.Context, int) Answer {
	pay, get := w.calling("pay", "pay"+prefix, refused), w.calling("get", "get"+prefix, refused)
	return func(ctx context.Context, n int) Answer {
		if n%2 == 1 {
			return get(ctx, n/2)
		}
		return pay(ctx, n/2)
	}
}

// An upstream becomes ten times as slow, too slow for the attempt's timeout, and
// well again.
func TestSlowUpstream(t *testing.T) {
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel() // the load is light
			proveSlow(t, store)
		})
	}
}

func proveSlow(t *testing.T, store string) {
	t.Helper()
	const (
		service = 30 * time.Millisecond
		openFor = time.Second
		rate    = 300
	)
	up := startPlant(t, 1000, service)
	up.noteArrivals()
	w := startWorld(t, store, fmt.Sprintf(`
defaults: {retry: {base: 20ms}, attempt_timeout: 200ms, deadline: 2s}
backends: {up: {http: {base_url: %q, allow_private: true}, max_in_flight: 400, breaker: {failures: 5, window: 10s, open_for: %s}}}
%s`, up.URL, openFor, mixed))
	refused, violations := &refusals{}, 0
	phase := func(name string, length time.Duration) *Tally {
		load := Load{For: length, Deadline: 3 * time.Second, Rate: rate, Callers: crowd, Call: w.mix(w.load(name), refused)}
		tally := load.Open(t.Context())
		t.Logf("%s: %s", name, tally)
		mustBeAmong(t, &violations, tally, OK, "CIRCUIT_OPEN", "OVERLOADED", "TIMEOUT", "OUTCOME_UNKNOWN")
		return tally
	}
	// A busy machine may make a well upstream late, but not each time.
	works := func(name string) {
		for try := 1; ; try++ {
			if tally := phase(name, time.Second); tally.Count(OK) >= tally.Total()*9/10 {
				return
			} else if try == tries {
				broken(t, &violations, "a well upstream: %s", tally)
				return
			}
		}
	}
	length := proof.Pick(2*time.Second, 20*time.Second)
	works("well")
	requests := up.requests.Load()
	up.service.Store(int64(10 * service))
	slow := phase("slow", length)
	requests = up.requests.Load() - requests
	up.service.Store(int64(service))
	recovered, took := w.recovers(t, "get", 2*openFor)
	works("again")

	refused.judge(t, &violations, up)
	amplification := float64(requests) / float64(slow.Total())
	if amplification > amplified {
		broken(t, &violations, "%.2f requests per call", amplification)
	}
	if slow.Count(OK) == slow.Total() || slow.Count("CIRCUIT_OPEN") == 0 {
		broken(t, &violations, "ten times as slow, and nobody noticed: %s", slow)
	}
	_, twice := up.executions(starts("pay"))
	if twice > 0 {
		broken(t, &violations, "%d payments were made twice", twice)
	}
	if !recovered {
		broken(t, &violations, "after %s it had not recovered", took)
	}
	proof.Report(t, proof.Row{
		Fault: "upstream ten times slower", Store: store, Runs: slow.Total(), Violations: violations,
		Figure: fmt.Sprintf("%.2f requests per call, no payment twice; well again after %s with open_for %s", amplification, seconds(took), openFor),
	})
}

// recovers waits until a call works. One that is asked later than that must: a
// busy machine may make it late, and says nothing about the breaker.
func (w *world) recovers(t *testing.T, toolName string, within time.Duration) (recovered bool, took time.Duration) {
	t.Helper()
	prefix := w.load(toolName + "probe")
	began := time.Now()
	for n := 0; ; n++ {
		asked := time.Now()
		res, err := w.call(t.Context(), n, toolName, fmt.Sprint(prefix, n))
		if err == nil && !res.GetIsError() {
			return true, time.Since(began)
		}
		if asked.Sub(began) > within {
			return false, time.Since(began)
		}
		if pause(t.Context(), 20*time.Millisecond) != nil {
			return false, time.Since(began)
		}
	}
}

// An upstream is up for a second and down for a second, again and again.
func TestFlappingUpstream(t *testing.T) {
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel() // the load is light
			proveFlapping(t, store)
		})
	}
}

// flap closes the listener and all connections of a plant, and opens them again
// at the same address.
type flap struct {
	plant  *plant
	addr   string
	server *http.Server
}

func (f *flap) down(t *testing.T) {
	t.Helper()
	if err := f.server.Close(); err != nil {
		t.Error(err)
	}
}

func (f *flap) up(t *testing.T) {
	t.Helper()
	var listener net.Listener
	var err error
	for range 50 { // an address that was in use a moment ago may be busy for another
		if listener, err = net.Listen("tcp", f.addr); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.server = f.plant.serve(t, listener)
}

func proveFlapping(t *testing.T, store string) {
	t.Helper()
	const (
		openFor = 300 * time.Millisecond
		rate    = 300
		half    = time.Second
	)
	up := startPlant(t, 1000, 5*time.Millisecond) // holds the executions
	up.noteArrivals()
	f := &flap{plant: up, addr: harness.FreePort(t)}
	f.up(t)
	w := startWorld(t, store, fmt.Sprintf(`
defaults: {retry: {base: 20ms}, attempt_timeout: 2s, deadline: 2500ms}
backends: {up: {http: {base_url: "http://%s", allow_private: true}, max_in_flight: 4000, breaker: {failures: 5, window: 10s, open_for: %s}}}
%s`, f.addr, openFor, mixed))
	cycles := proof.Runs(2, 20)
	refused := &refusals{}
	// It is down for a little longer each time: so it comes back at any instant
	// of the open time.
	longer := openFor / time.Duration(cycles)
	load := Load{
		For: time.Duration(cycles)*2*half + longer*time.Duration(cycles*(cycles-1)/2), Deadline: 3 * time.Second, Rate: rate, Callers: crowd,
		Call: w.mix(w.load("flap"), refused),
	}
	loaded := make(chan *Tally, 1)
	began := time.Now()
	go func() { loaded <- load.Open(t.Context()) }()
	var ups, downs []time.Duration // since the start of the load
	for i := range cycles {
		ups = append(ups, time.Since(began))
		_ = pause(t.Context(), half) // the end of the test ends the load too
		downs = append(downs, time.Since(began))
		f.down(t)
		_ = pause(t.Context(), half+time.Duration(i)*longer)
		f.up(t)
	}
	tally := <-loaded
	attempts := w.attempts()
	t.Logf("%s", tally)

	violations := 0
	refused.judge(t, &violations, up)
	mustBeAmong(t, &violations, tally, OK, "CIRCUIT_OPEN", "DEPENDENCY_UNAVAILABLE", "OUTCOME_UNKNOWN")
	if attempts > amplified*float64(tally.Total()) {
		broken(t, &violations, "%.0f attempts for %d calls", attempts, tally.Total())
	}
	slowest, worked, windows := time.Duration(0), 0.0, 0
	for i, from := range ups {
		// Of those due then, not made then: the load may be late on a busy machine.
		slowest = max(slowest, tally.FirstDue(OK, from)-from)
		// Of all that were made while it was up and the breaker had to know.
		good, all := tally.Worked(from+2*openFor, downs[i]-half/10)
		if all > 0 {
			worked += float64(good) / float64(all)
			windows++
		}
	}
	worked /= float64(max(windows, 1))
	if slowest > 2*openFor {
		broken(t, &violations, "nothing worked until %s after it was up again", slowest)
	}
	if worked < 0.8 {
		broken(t, &violations, "while it was up, %.0f %% of the calls worked", 100*worked)
	}
	if tally.Count("CIRCUIT_OPEN") == 0 {
		broken(t, &violations, "the breaker never opened: %s", tally)
	}
	if _, twice := up.executions(starts("pay")); twice > 0 {
		broken(t, &violations, "%d payments were made twice", twice)
	}
	proof.Report(t, proof.Row{
		Fault: "upstream up and down every second", Store: store, Runs: tally.Total(), Violations: violations,
		Figure: fmt.Sprintf("%.2f attempts per call, no payment twice; %.1f %% worked while up, the first %s after it was up at the latest, with open_for %s",
			attempts/float64(tally.Total()), 100*worked, slowest.Round(10*time.Millisecond), openFor),
	})
}
