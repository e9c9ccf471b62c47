//go:build prove

package overload

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/e2e/harness"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/prove/proof"
)

// mixed are a tool of which nothing may be repeated and one that may be.
const mixed = `
tools:
  pay: {backend: up, effect: non_idempotent, http: {method: POST, path: /pay, query: {id: id}}, input_schema: {type: object, properties: {id: {type: string}}, required: [id]}}
  get: {backend: up, effect: read_only, http: {method: POST, path: /get, query: {id: id}}, input_schema: {type: object, properties: {id: {type: string}}, required: [id]}}
`

// mix makes every other call a payment.
func (w *world) mix(prefix string) func(context.Context, int) Answer {
	return func(ctx context.Context, n int) Answer {
		toolName := "pay"
		if n%2 == 1 {
			toolName = "get"
		}
		return answerOf(w.call(ctx, n/2, toolName, fmt.Sprint(toolName, prefix, n)))
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
	w := startWorld(t, store, fmt.Sprintf(`
defaults: {retry: {base: 20ms}, attempt_timeout: 200ms, deadline: 2s}
backends: {up: {http: {base_url: %q, allow_private: true}, max_in_flight: 400, breaker: {failures: 5, window: 10s, open_for: %s}}}
%s`, up.URL, openFor, mixed))
	phase := func(name string, length time.Duration) *Tally {
		load := Load{For: length, Deadline: 3 * time.Second, Rate: rate, Callers: crowd, Call: w.mix(w.load(name))}
		tally := load.Open(t.Context())
		t.Logf("%s: %s", name, tally)
		return tally
	}
	length := proof.Pick(2*time.Second, 20*time.Second)
	well := phase("well", time.Second)
	requests := up.requests.Load()
	up.service.Store(int64(10 * service))
	slow := phase("slow", length)
	requests = up.requests.Load() - requests
	up.service.Store(int64(service))
	recovered, took := w.recovers(t, "get", 2*openFor)
	again := phase("again", time.Second)

	violations := 0
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
	if well.Count(OK) < well.Total()*9/10 || again.Count(OK) < again.Total()*9/10 {
		broken(t, &violations, "a well upstream: %s, then %s", well, again)
	}
	proof.Report(t, proof.Row{
		Fault: "upstream ten times slower", Store: store, Runs: slow.Total(), Violations: violations,
		Figure: fmt.Sprintf("%.2f requests per call, no payment twice; well again after %s with open_for %s", amplification, seconds(took), openFor),
	})
}

// recovers waits until a call works, at most as long as that, and a moment for a
// busy machine.
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
		if asked.Sub(began) > within+time.Second {
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
		openFor = 200 * time.Millisecond
		rate    = 300
		half    = time.Second
	)
	up := startPlant(t, 1000, 5*time.Millisecond) // holds the executions
	f := &flap{plant: up, addr: harness.FreePort(t)}
	f.up(t)
	w := startWorld(t, store, fmt.Sprintf(`
defaults: {retry: {base: 20ms}, attempt_timeout: 500ms, deadline: 2s}
backends: {up: {http: {base_url: "http://%s", allow_private: true}, max_in_flight: 400, breaker: {failures: 5, window: 10s, open_for: %s}}}
%s`, f.addr, openFor, mixed))
	cycles := proof.Runs(2, 20)
	load := Load{
		For: time.Duration(cycles) * 2 * half, Deadline: 3 * time.Second, Rate: rate, Callers: crowd,
		Call: w.mix(w.load("flap")),
	}
	loaded := make(chan *Tally, 1)
	began := time.Now()
	go func() { loaded <- load.Open(t.Context()) }()
	var ups []time.Duration // since the start of the load
	for range cycles {
		ups = append(ups, time.Since(began))
		_ = pause(t.Context(), half) // the end of the test ends the load too
		f.down(t)
		_ = pause(t.Context(), half)
		f.up(t)
	}
	tally := <-loaded
	attempts := w.attempts()
	t.Logf("%s", tally)

	violations := 0
	if attempts > amplified*float64(tally.Total()) {
		broken(t, &violations, "%.0f attempts for %d calls", attempts, tally.Total())
	}
	lowest, slowest := 1.0, time.Duration(0)
	for _, from := range ups {
		back := tally.FirstEnd(OK, from)
		slowest = max(slowest, back-from)
		// A breaker may be open for its time when the upstream comes back.
		lowest = min(lowest, tally.Goodput(from+2*openFor, from+half)/rate)
	}
	if slowest > 2*openFor+time.Second/2 {
		broken(t, &violations, "nothing worked until %s after it was up again", slowest)
	}
	if lowest < 0.8 {
		broken(t, &violations, "while it was up, %.0f %% of the calls worked", 100*lowest)
	}
	if tally.Count("CIRCUIT_OPEN") == 0 {
		broken(t, &violations, "the breaker never opened: %s", tally)
	}
	if _, twice := up.executions(starts("pay")); twice > 0 {
		broken(t, &violations, "%d payments were made twice", twice)
	}
	proof.Report(t, proof.Row{
		Fault: "upstream up and down every second", Store: store, Runs: tally.Total(), Violations: violations,
		Figure: fmt.Sprintf("%.2f attempts per call, no payment twice; %.0f %% or more worked while up, the first %s after it was up at the latest, with open_for %s",
			attempts/float64(tally.Total()), 100*lowest, slowest.Round(10*time.Millisecond), openFor),
	})
}

// A probe that is lost, or whose backend panics, must not hold the breaker in
// half-open: the call that carries it is cut off by its own timeout.
func TestLostProbe(t *testing.T) {
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel() // the load is light
			proveLostProbe(t, store)
		})
	}
}

func proveLostProbe(t *testing.T, store string) {
	t.Helper()
	const openFor = 500 * time.Millisecond
	up := startPlant(t, 1000, 0)
	w := startWorld(t, store, fmt.Sprintf(`
defaults: {retry: {max_attempts: 1}, attempt_timeout: 1m, deadline: 2m}
backends: {up: {http: {base_url: %q, allow_private: true}, breaker: {failures: 2, window: 10s, open_for: %s}}}
%s`, up.URL, openFor, mixed))
	runs, violations, slowest := proof.Runs(2, 20), 0, time.Duration(0)
	for run := range runs {
		fail := func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.WriteHeader(http.StatusInternalServerError)
			return true
		}
		up.answers(fail)
		prefix := w.load("trip")
		tripped := time.Now()
		for n := 0; ; n++ {
			res, err := w.call(t.Context(), n, "get", fmt.Sprint(prefix, n))
			if err != nil {
				t.Fatal(err)
			}
			if res.GetError().GetCode() == "CIRCUIT_OPEN" {
				break
			}
			tripped = time.Now()
		}
		// The next probe hangs, for much longer than the breaker may wait for it.
		hung, letGo := make(chan struct{}, 1), make(chan struct{})
		var probes atomic.Int64
		up.answers(func(_ http.ResponseWriter, req *http.Request) bool {
			if probes.Add(1) > 1 {
				return false
			}
			hung <- struct{}{}
			select {
			case <-letGo:
			case <-req.Context().Done():
			}
			return true
		})
		lost := make(chan *sidecallv1.ExecuteToolResponse, 1)
		go func() { lost <- w.probe(t, w.load("lost")) }()
		select {
		case <-hung:
		case <-time.After(time.Minute):
			t.Fatalf("run %d: no probe in half-open", run)
		}
		recovered, _ := w.recovers(t, "get", 2*openFor)
		took := time.Since(tripped)
		slowest = max(slowest, took)
		if !recovered || took > 2*openFor+time.Second {
			broken(t, &violations, "run %d: closed again %s after it opened", run, took)
		}
		close(letGo)
		<-lost
		up.answers(nil)
	}
	proof.Report(t, proof.Row{
		Fault: "probe lost in half-open", Store: store, Runs: runs, Violations: violations,
		Figure: fmt.Sprintf("closed again %s or sooner after it opened, with open_for %s", slowest.Round(10*time.Millisecond), openFor),
	})
}

// probe calls until the breaker lets a call through, and returns its result.
func (w *world) probe(t *testing.T, prefix string) *sidecallv1.ExecuteToolResponse {
	t.Helper()
	for n := 0; ; n++ {
		res, err := w.call(t.Context(), n, "get", fmt.Sprint(prefix, n))
		if err != nil || res.GetError().GetCode() != "CIRCUIT_OPEN" {
			return res
		}
		if pause(t.Context(), 10*time.Millisecond) != nil {
			return res
		}
	}
}
