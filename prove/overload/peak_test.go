//go:build prove

package overload

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/prove/proof"
)

// peak is a scenario of five times too much.
type peak struct {
	fault, store string
	world        *world
	plant        *plant
	tool         string
	// callers is how many calls in flight give the most goodput; extra is
	// how many the open loop may have.
	callers int
	// deadline of each call; peakDeadline when it is 0.
	deadline time.Duration
	// from is the instant after the start of the overload from which goodput is
	// measured; window is how long the overload lasts. 0 means the usual.
	from, window time.Duration
}

const (
	peakDeadline = 2 * time.Second
	// times is how many times the peak is offered.
	times = 5
	// enough is the share of the peak that goodput must keep.
	enough = 0.9
	// crowd bounds what the generator has in flight.
	crowd = 20_000
	// looks is how often the sidecar is measured during a load.
	looks = 12
)

// prove finds the peak, offers five times as much, and looks whether the sidecar
// is its old self afterwards.
func (p *peak) prove(t *testing.T) {
	t.Helper()
	window := cmp.Or(p.window, proof.Pick(3*time.Second, 20*time.Second))
	deadline := cmp.Or(p.deadline, peakDeadline)
	from := cmp.Or(p.from, window/10)
	w := p.world
	closed := Load{For: window, Deadline: deadline, Callers: p.callers}
	warm := closed
	warm.For, warm.Call = time.Second, w.calling(p.tool, w.load("warm"), nil)
	warm.Closed(t.Context())
	closed.Call = w.calling(p.tool, w.load("peak"), nil)
	computed := w.processorTime()
	before := closed.Closed(t.Context())
	perCall := (w.processorTime() - computed) / float64(max(before.Count(OK), 1))
	most := before.Goodput(window/10, window)
	if most <= 0 {
		t.Fatalf("no goodput at all: %s", before)
	}

	refused := &refusals{code: "OVERLOADED"}
	sent := p.plant.requests.Load()
	open := Load{
		For: window, Deadline: deadline, Rate: times * most, Callers: crowd,
		Call: w.calling(p.tool, w.load("over"), refused.look),
	}
	computed = w.processorTime()
	flat := w.watch(t, window/looks)
	over := open.Open(t.Context())
	memory := flat.stop()
	sent = p.plant.requests.Load() - sent
	wasted := w.processorTime() - computed - perCall*float64(over.Count(OK))
	good := over.Goodput(from, window)

	closed.Call = w.calling(p.tool, w.load("after"), nil)
	// A second for what was sent before to be over, and for a bound to widen.
	closed.For = time.Second + window/3
	after := closed.Closed(t.Context())
	again := after.Goodput(time.Second, closed.For)
	t.Logf("peak:  %s\nover:  %s\nafter: %s\n%s\nprocessor time of a call %.0f µs, of one refused %.0f µs",
		before, over, after, memory, 1e6*perCall, 1e6*wasted/float64(max(over.Count("OVERLOADED"), 1)))

	violations := refused.violations(t)
	if good < enough*most {
		broken(t, &violations, "goodput %.0f/s of %.0f/s", good, most)
	}
	if again < enough*most {
		broken(t, &violations, "after it %.0f/s of %.0f/s", again, most)
	}
	if refused.seen.Load() == 0 {
		broken(t, &violations, "nothing was refused")
	}
	if unsent := int(sent) - (over.Total() - over.Count("OVERLOADED")); unsent > 0 {
		broken(t, &violations, "%d requests more than calls that were not refused", unsent)
	}
	mustBeFlat(t, &violations, memory)
	proof.Report(t, proof.Row{
		Fault: p.fault, Store: p.store, Runs: over.Total() + over.Unsent(), Violations: violations,
		Figure: fmt.Sprintf("%.0f %% of the peak of %s after %s at %.1f times the load; refused in %s (p99); %s; after it %.0f %%",
			100*good/most, perSecond(most), seconds(from), float64(over.Total())/window.Seconds()/most,
			over.Quantile("OVERLOADED", 0.99).Round(time.Millisecond), memory, 100*again/most),
	})
}

// A backend that serves so many at a time, and a sidecar that lets so many in.
func TestFiveTimesTooMuchForTheBackend(t *testing.T) {
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			const places = 16
			up := startPlant(t, places, 20*time.Millisecond)
			w := startWorld(t, store, fmt.Sprintf(`
backends: {up: {http: {base_url: %q, allow_private: true}, max_in_flight: %d}}
tools: {pay: {backend: up, http: {method: POST, path: /pay, query: {id: id}}, input_schema: {type: object, properties: {id: {type: string}}, required: [id]}}}
`, up.URL, places))
			(&peak{fault: "5 x what the backend serves", store: store, world: w, plant: up, tool: "pay", callers: places}).prove(t)
			if most := up.crowd.Load(); most > places {
				t.Errorf("%d requests at a time at a backend that may have %d", most, places)
			}
		})
	}
}

// A backend that serves fewer at a time than the sidecar lets in, and lets the
// others stand in line for longer than their callers wait. Worse, it does not
// notice those who leave. With a fixed bound a tenth of the peak is left.
func TestFiveTimesTooMuchForABackendWithAQueue(t *testing.T) {
	for _, blind := range []bool{false, true} {
		fault, store := "5 x what a backend with a queue serves", "embedded"
		if blind {
			fault, store = fault+", to nobody when its client has left", "redis"
		}
		t.Run(fault, func(t *testing.T) {
			const workers = 8
			up := startPlant(t, workers, 25*time.Millisecond)
			up.blind = blind
			w := startWorld(t, store, fmt.Sprintf(`
defaults: {retry: {max_attempts: 1}}
backends: {up: {http: {base_url: %q, allow_private: true}}}
tools: {pay: {backend: up, effect: idempotent, http: {method: POST, path: /pay, query: {id: id}}, input_schema: {type: object, properties: {id: {type: string}}, required: [id]}}}
`, up.URL))
			(&peak{
				fault: fault, store: store, world: w, plant: up, tool: "pay", callers: 2 * workers,
				deadline: time.Second / 2, from: 4 * time.Second, window: proof.Pick(7*time.Second, 30*time.Second),
			}).prove(t)
		})
	}
}

// Calls that cost the sidecar itself much: long arguments, each of whose items is
// checked, on one processor. What is too much must be refused for so little that
// the processor is left for the rest.
func TestFiveTimesTooMuchForTheSidecar(t *testing.T) {
	const (
		store   = "redis"
		callers = 8
		items   = 1500
	)
	up := startPlant(t, 1000, 0)
	w := startWorld(t, store, fmt.Sprintf(`
backends: {up: {http: {base_url: %q, allow_private: true}, max_in_flight: %d}}
tools:
  import:
    backend: up
    effect: idempotent
    http: {method: POST, path: /import, query: {id: id}, body: {}}
    input_schema:
      type: object
      required: [id, items]
      additionalProperties: false
      properties:
        id: {type: string}
        items: {type: array, items: {type: object, additionalProperties: false, required: [sku, count], properties: {sku: {type: string, pattern: "^[A-Z]{3}-[0-9]+$"}, count: {type: integer, minimum: 1}}}}
`, up.URL, 2*callers), "GOMAXPROCS=1")
	var list strings.Builder
	for i := range items {
		fmt.Fprintf(&list, `,{"sku":"ABC-%d","count":%d}`, i, i+1)
	}
	w.arguments = func(id string) string { return fmt.Sprintf(`{"id":%q,"items":[%s]}`, id, list.String()[1:]) }
	(&peak{
		fault: "5 x what the sidecar's processor serves", store: store, world: w, plant: up, tool: "import", callers: callers,
	}).prove(t)
}
