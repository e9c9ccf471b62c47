//go:build prove

package overload

import (
	"fmt"
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
	window := proof.Pick(3*time.Second, 20*time.Second)
	w := p.world
	closed := Load{For: window, Deadline: peakDeadline, Callers: p.callers}
	warm := closed
	warm.For, warm.Call = time.Second, w.calling(p.tool, w.load("warm"), nil)
	warm.Closed(t.Context())
	closed.Call = w.calling(p.tool, w.load("peak"), nil)
	before := closed.Closed(t.Context())
	most := before.Goodput(window/10, window)
	if most <= 0 {
		t.Fatalf("no goodput at all: %s", before)
	}

	refused := &refusals{code: "OVERLOADED"}
	sent := p.plant.requests.Load()
	open := Load{
		For: window, Deadline: peakDeadline, Rate: times * most, Callers: crowd,
		Call: w.calling(p.tool, w.load("over"), refused.look),
	}
	flat := w.watch(t, window/looks)
	over := open.Open(t.Context())
	memory := flat.stop()
	sent = p.plant.requests.Load() - sent
	good := over.Goodput(window/10, window)

	closed.Call = w.calling(p.tool, w.load("after"), nil)
	closed.For = max(window/3, time.Second)
	after := closed.Closed(t.Context())
	again := after.Goodput(0, closed.For)
	t.Logf("peak:  %s\nover:  %s\nafter: %s\n%s", before, over, after, memory)

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
		Figure: fmt.Sprintf("%.0f %% of the peak of %s at %.1f times the load; refused in %s (p99); %s; after it %.0f %%",
			100*good/most, perSecond(most), float64(over.Total())/window.Seconds()/most,
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
