//go:build prove

package overload

import (
	"cmp"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/sidecall/sidecall/retry"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// death is a way in which an upstream is dead.
type death struct {
	fault string
	// answers is what comes of a request; nil where nobody listens.
	answers func(w http.ResponseWriter, req *http.Request) bool
	// effect of the tool decides what may be repeated.
	effect string
	// breaker is the breaker's part of the config; left to its defaults it opens.
	breaker string
	// timeout of an attempt; long when it is 0. Whoever gives an attempt up has
	// not heard its Retry-After, so a busy machine needs a long one to prove that
	// nobody who heard it comes early.
	timeout time.Duration
	// codes are those that a call may end with, beside that of an open breaker.
	codes []string
	// wait is the Retry-After that the upstream answers with; 0 for none.
	wait time.Duration
}

const (
	deadRate     = 1000
	deadDeadline = 5 * time.Second
	// amplified is the most attempts per call that a dead upstream may get.
	amplified = 1.2
	// never keeps a breaker closed, so that the retry budget stands alone.
	never = ", breaker: {failures: 1000000}"
)

// deadLength is how long each upstream is dead.
func deadLength() time.Duration { return proof.Pick(2*time.Second, time.Minute) }

func deadUpstreams() []death {
	const wait = time.Second
	gone := []string{"DEPENDENCY_UNAVAILABLE"}
	// The time may be over before there is a connection, when the machine is busy.
	late := []string{"TIMEOUT", "OVERLOADED", "DEPENDENCY_UNAVAILABLE"}
	busy := func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", fmt.Sprint(int(wait.Seconds())))
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	return []death{
		{fault: "connections refused", effect: "non_idempotent", codes: gone},
		{fault: "connections refused, breaker off", effect: "non_idempotent", codes: gone, breaker: never},
		{fault: "accepts, then closes", effect: "read_only", codes: gone, answers: closes},
		{fault: "accepts, then closes, breaker off", effect: "read_only", codes: gone, answers: closes, breaker: never},
		{fault: "503 with Retry-After", effect: "read_only", codes: gone, answers: busy, wait: wait},
		{fault: "503 with Retry-After, breaker off", effect: "read_only", codes: gone, answers: busy, wait: wait, breaker: never},
		{fault: "accepts, never answers", effect: "read_only", codes: late, answers: swallows, timeout: 300 * time.Millisecond},
		{fault: "accepts, never answers, breaker off", effect: "read_only", codes: late, answers: swallows, timeout: 300 * time.Millisecond, breaker: never},
	}
}

// closes ends the connection without a word.
func closes(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }

// swallows says nothing until the client leaves.
func swallows(_ http.ResponseWriter, req *http.Request) bool {
	<-req.Context().Done()
	return true
}

// start returns the upstream's URL, and the upstream unless there is none.
func (d *death) start(t *testing.T) (url string, up *plant) {
	t.Helper()
	if d.answers == nil {
		return "http://" + harness.FreePort(t), nil
	}
	up = startPlant(t, 1000, 0)
	up.noteArrivals()
	up.answers(d.answers)
	return up.URL, up
}

func TestDeadUpstreams(t *testing.T) {
	for i, dead := range deadUpstreams() {
		// One store each is enough: no retry touches it.
		t.Run(dead.fault, func(t *testing.T) { dead.prove(t, stores[i/2%len(stores)]) })
	}
}

func (d *death) prove(t *testing.T, store string) {
	t.Helper()
	url, up := d.start(t)
	w := startWorld(t, store, fmt.Sprintf(`
lease: 10s
retention: 1m
defaults: {retry: {base: 20ms}, attempt_timeout: %s, deadline: 4s}
backends: {up: {http: {base_url: %q, allow_private: true}, max_in_flight: 4000%s}}
tools: {act: {backend: up, effect: %s, http: {method: POST, path: /act, query: {id: id}}, input_schema: {type: object, properties: {id: {type: string}}, required: [id]}}}
`, cmp.Or(d.timeout, 3*time.Second), url, d.breaker, d.effect))
	refused := &refusals{}
	length := deadLength()
	before := w.idle(t, Vitals{}, 30*time.Second)
	load := Load{
		For: length, Deadline: deadDeadline, Rate: deadRate, Callers: crowd,
		Call: w.calling("act", w.load("dead"), refused),
	}
	// Every second in full: calls that a busy machine has held up come all at
	// once, their retries too, and both are over a second later.
	watched := w.watch(t, length/time.Duration(proof.Runs(looks, 60)))
	tally := load.Open(t.Context())
	memory := watched.stop()
	t.Logf("%s\n%s", tally, memory)

	violations := 0
	refused.judge(t, &violations, up)
	d.judge(t, &violations, tally)
	attempts := max(float64(tally.Attempts()), w.attempts())
	if up != nil {
		attempts = max(attempts, float64(up.requests.Load()))
	}
	calls := float64(tally.Total())
	if attempts == 0 || attempts > amplified*calls {
		broken(t, &violations, "%.0f attempts for %.0f calls", attempts, calls)
	}
	// Calls that were refused must not hide what the others did.
	ran := calls
	for _, code := range refusing {
		ran -= float64(tally.Count(code))
	}
	if few := retry.BudgetFloor * (length + retry.BudgetWindow).Seconds(); attempts > amplified*ran+few {
		broken(t, &violations, "%.0f attempts for the %.0f calls that were not refused", attempts, ran)
	}
	figure := fmt.Sprintf("%.2f attempts per call at %.0f calls/s", attempts/calls, tally.Offered(length))
	if d.wait > 0 {
		early, repeated := up.early(d.wait)
		violations += early
		if repeated > 0 {
			figure += fmt.Sprintf(", %d retries, %d before Retry-After", repeated, early)
		}
		if d.breaker == never && repeated == 0 {
			broken(t, &violations, "nothing was repeated, so nothing can have been too early")
		}
	}
	mustBeBounded(t, &violations, memory, Vitals{RSS: 200 * mib, Heap: 64 * mib, Goroutines: 8000, FDs: 3000})
	if proof.Full() { // in the short form it is still warming up
		// The embedded store has an index of its rows, which are kept for up to three times the
		// retention. When they are gone what is in memory of them must be, which the runtime
		// sees when it next collects: in two minutes, where nothing happens.
		mustBeFlat(t, &violations, memory.without(func(v *Vitals) { v.Heap = 0 }))
		before.Heap += 5 * mib // what telemetry has of 16,384 prompts, for half an hour
		t.Parallel()           // all of them wait together
		w.mustCalmDown(t, &violations, before, 10*time.Minute)
	}
	proof.Report(t, proof.Row{
		Fault: "dead upstream: " + d.fault, Store: store, Runs: tally.Total(), Violations: violations,
		Figure: fmt.Sprintf("%s; breaker refused %d; %s", figure, tally.Count("CIRCUIT_OPEN"), memory),
	})
}

// judge counts what the calls were told that they must not have been.
func (d *death) judge(t *testing.T, violations *int, tally *Tally) {
	t.Helper()
	codes := d.codes
	if d.breaker != never {
		codes = append([]string{"CIRCUIT_OPEN"}, codes...)
		if tally.Count("CIRCUIT_OPEN") == 0 {
			broken(t, violations, "no call found the breaker open")
		}
	}
	mustBeAmong(t, violations, tally, codes...)
	// Small parts of the time that the calls had. In short the load alone may be
	// more than what a busy machine has left, and there is no second try.
	soon := deadDeadline / time.Duration(proof.Runs(2, 10))
	for _, code := range refusing {
		if late := tally.Quantile(code, 0.99); late > soon {
			broken(t, violations, "%s in %s (p99)", code, late)
		}
	}
	if offered := tally.Offered(deadLength()); offered < leastOffered()*deadRate {
		broken(t, violations, "%.0f calls/s, and not %d", offered, deadRate)
	}
}
