//go:build prove

package overload

import (
	"cmp"
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

// death is a way in which an upstream is dead.
type death struct {
	fault string
	// start returns the upstream's URL and how many attempts have reached it; nil
	// where none can be counted from there.
	start func(t *testing.T) (url string, reached func() int64)
	// tool is what the calls are: its effect decides what may be repeated.
	effect string
	// breaker is the breaker's part of the config; left to its defaults it opens.
	breaker string
	// timeout of an attempt; 300 ms when it is 0. Whoever gives an attempt up has
	// not heard its Retry-After, so a busy machine needs a longer one to prove that
	// nobody who heard it comes early.
	timeout time.Duration
	// opens says that the breaker has to open.
	opens bool
	// early counts the attempts that came before they were allowed to, and all
	// repeated ones.
	early func() (early, repeated int)
}

const (
	deadRate = 1000
	// amplified is the most attempts per call that a dead upstream may get.
	amplified = 1.2
	// never keeps a breaker closed, so that the retry budget stands alone.
	never = ", breaker: {failures: 1000000}"
)

func deadUpstreams(t *testing.T) []death {
	t.Helper()
	const wait = time.Second
	busy := func(t *testing.T) (*plant, func() (int, int)) {
		t.Helper()
		up := startPlant(t, 1000, 0)
		up.noteArrivals()
		up.answers(func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", fmt.Sprint(int(wait.Seconds())))
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
		return up, func() (int, int) { return up.early(wait) }
	}
	counted := func(up *plant) (string, func() int64) { return up.URL, up.requests.Load }
	withBreaker, early := busy(t)
	alone, earlyAlone := busy(t)
	return []death{
		{fault: "connections refused", effect: "non_idempotent", start: refuses, opens: true},
		{fault: "connections refused, breaker off", effect: "non_idempotent", start: refuses, breaker: never},
		{fault: "accepts, then closes", effect: "read_only", start: closes, opens: true},
		{fault: "accepts, then closes, breaker off", effect: "read_only", start: closes, breaker: never},
		{fault: "503 with Retry-After", effect: "read_only", timeout: 3 * time.Second, opens: true, early: early,
			start: func(*testing.T) (string, func() int64) { return counted(withBreaker) }},
		{fault: "503 with Retry-After, breaker off", effect: "read_only", timeout: 3 * time.Second, breaker: never, early: earlyAlone,
			start: func(*testing.T) (string, func() int64) { return counted(alone) }},
		{fault: "accepts, never answers", effect: "read_only", start: swallows, opens: true},
		{fault: "accepts, never answers, breaker off", effect: "read_only", start: swallows, breaker: never},
	}
}

// refuses is an upstream that is not there.
func refuses(t *testing.T) (url string, reached func() int64) {
	t.Helper()
	return "http://" + harness.FreePort(t), nil
}

// closes accepts connections, reads a little and closes them.
func closes(t *testing.T) (url string, reached func() int64) {
	t.Helper()
	return accepts(t, func(conn net.Conn) {
		var some [512]byte
		_, _ = conn.Read(some[:]) // whatever it was: the client is left alone with it
		_ = conn.Close()
	})
}

// swallows accepts connections, reads what comes and never answers.
func swallows(t *testing.T) (url string, reached func() int64) {
	t.Helper()
	return accepts(t, func(conn net.Conn) {
		defer conn.Close()
		for some := make([]byte, 4096); ; {
			if _, err := conn.Read(some); err != nil {
				return
			}
		}
	})
}

// accepts counts connections, each of which can carry one attempt, since none
// is ever answered.
func accepts(t *testing.T, treat func(net.Conn)) (url string, reached func() int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	})
	var n atomic.Int64
	go func() { // ends with the listener
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			go treat(conn) // ends with the connection, which the sidecar closes
		}
	}()
	return "http://" + listener.Addr().String(), n.Load
}

func TestDeadUpstreams(t *testing.T) {
	for i, dead := range deadUpstreams(t) {
		// One store each is enough: no retry touches it.
		t.Run(dead.fault, func(t *testing.T) { dead.prove(t, stores[i/2%len(stores)]) })
	}
}

func (d *death) prove(t *testing.T, store string) {
	t.Helper()
	url, reached := d.start(t)
	w := startWorld(t, store, fmt.Sprintf(`
defaults: {retry: {base: 20ms}, attempt_timeout: %s, deadline: 4s}
backends: {up: {http: {base_url: %q, allow_private: true}, max_in_flight: 4000%s}}
tools: {act: {backend: up, effect: %s, http: {method: POST, path: /act, query: {id: id}}, input_schema: {type: object, properties: {id: {type: string}}, required: [id]}}}
`, cmp.Or(d.timeout, 300*time.Millisecond), url, d.breaker, d.effect))
	open := &refusals{code: "CIRCUIT_OPEN"}
	var told atomic.Int64
	length := proof.Pick(2*time.Second, time.Minute)
	load := Load{
		For: length, Deadline: 5 * time.Second, Rate: deadRate, Callers: crowd,
		Call: w.calling("act", w.load("dead"), func(res *sidecallv1.ExecuteToolResponse) {
			told.Add(int64(res.GetRecovery().GetAttempts()))
			open.look(res)
		}),
	}
	watched := w.watch(t, length/looks)
	tally := load.Open(t.Context())
	memory := watched.stop()
	t.Logf("%s\n%s", tally, memory)

	violations := open.violations(t)
	attempts := max(float64(told.Load()), w.attempts())
	if reached != nil {
		attempts = max(attempts, float64(reached()))
	}
	calls := float64(tally.Total())
	if attempts == 0 || attempts > amplified*calls {
		broken(t, &violations, "%.0f attempts for %.0f calls", attempts, calls)
	}
	if d.opens != (open.seen.Load() > 0) {
		broken(t, &violations, "%d calls found the breaker open", open.seen.Load())
	}
	if tally.Count(OK) > 0 || tally.Unsent() > 0 {
		broken(t, &violations, "calls of a dead upstream that worked, or were not made: %s", tally)
	}
	figure := fmt.Sprintf("%.2f attempts per call at %d calls/s", attempts/calls, deadRate)
	if d.early != nil {
		early, repeated := d.early()
		violations += early
		figure += fmt.Sprintf(", %d retries, none before Retry-After", repeated)
		if d.breaker == never && repeated == 0 {
			broken(t, &violations, "nothing was repeated, so nothing can have been too early")
		}
	}
	mustBeBounded(t, &violations, memory, Vitals{RSS: 200 * mib, Heap: 64 * mib, Goroutines: 8000, FDs: 3000})
	if proof.Full() { // in the short form it is still warming up
		mustBeFlat(t, &violations, memory)
	}
	proof.Report(t, proof.Row{
		Fault: "dead upstream: " + d.fault, Store: store, Runs: tally.Total(), Violations: violations,
		Figure: fmt.Sprintf("%s; breaker refused %d; %s", figure, open.seen.Load(), memory),
	})
}
