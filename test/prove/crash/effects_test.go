//go:build prove

package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

const (
	// idsOfEach is how many ids ask for each effect, at the same time.
	idsOfEach = 4
	// effectsAtOnce is how many effects are asked for at the same time.
	effectsAtOnce = 8
)

// Models that plan anew, on several sidecars, which are killed meanwhile: as many
// executions as effects at the most, however many ids each has.
func TestEffectsAreHadOnce(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	config := w.effects(startRedis(t))
	p := &effects{tally: newTally(), world: w, store: "redis", n: proof.Runs(200, 10_000), every: proof.Runs(20, 50)}
	for range 3 {
		p.sidecars = append(p.sidecars, harness.Start(t, config))
	}
	p.run(t)
}

func TestEffectsAreHadOnceInOneSidecar(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	p := &effects{tally: newTally(), world: w, store: "embedded", n: proof.Runs(100, 10_000), every: proof.Runs(20, 50)}
	p.sidecars = []*harness.Sidecar{harness.Start(t, w.effects(embeddedStore))}
	p.run(t)
}

// effects is a config whose tools have effects: act in all conversations, pay in one.
func (w *world) effects(store string) string {
	const arguments = "input_schema: {type: object, properties: {key: {type: string}}, required: [key]}"
	return fmt.Sprintf(`
store: %s
lease: %s
backends:
  up: {http: {base_url: %q, allow_private: true}, adaptive: false, max_in_flight: 10000, breaker: {failures: 1000000}}
tools:
  act: {backend: up, effect: non_idempotent, effect_key: {args: [key], scope: tenant}, http: {method: POST, path: /act, query: {key: key}}, %[4]s}
  pay: {backend: up, effect: keyed, effect_key: {args: [key]}, http: {method: POST, path: /pay, query: {key: key}, idempotency_header: Idempotency-Key}, %[4]s}
`, store, shortLease, w.URL, arguments)
}

// effects is the proof for one store.
type effects struct {
	*tally
	world    *world
	store    string
	sidecars []*harness.Sidecar
	n        int
	// every is after how many effects a sidecar is killed.
	every int
	cut   atomic.Int32 // calls that were under way in a sidecar that was killed
}

func (p *effects) run(t *testing.T) {
	t.Helper()
	p.world.slow(10 * time.Millisecond) // so that others ask for it while it runs
	ended := make(chan struct{}, p.n)
	failed := make(chan error, 1)
	go func() { // ends with the effects
		defer close(ended)
		var group errgroup.Group
		group.SetLimit(effectsAtOnce)
		for i := range p.n {
			group.Go(func() error {
				defer func() { ended <- struct{}{} }()
				return p.one(t, i)
			})
		}
		failed <- group.Wait()
	}()
	kills, done := 0, 0
	for range ended {
		if done++; done%p.every == 0 && done < p.n-effectsAtOnce {
			victim := p.sidecars[rand.N(len(p.sidecars))]
			victim.Kill()
			victim.Run()
			victim.TakeLog()
			kills++
		}
	}
	if err := <-failed; err != nil {
		p.broken(t, "%v", err)
	}
	p.judge(t, kills)
}

// effectOf is the effect with a number.
func effectOf(i int) string { return fmt.Sprint("effect", i) }

// asks is a request for it under an id.
func asks(i, id int) *request {
	tool, conversation := act, fmt.Sprintf("c%d-%d", i, id)
	if i%2 == 1 {
		tool, conversation = pay, fmt.Sprint("c", i)
	}
	req := callOf(tool, effectOf(i))
	req.ToolUseId, req.ConversationId = fmt.Sprint("id", id), conversation
	return req
}

// one asks for an effect under all its ids at once, and judges the answers.
func (p *effects) one(t *testing.T, i int) error {
	t.Helper()
	answers := make([]*response, idsOfEach)
	var group errgroup.Group
	for id := range answers {
		group.Go(func() (err error) {
			answers[id], err = p.ask(t, asks(i, id), i+id)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("%s: %w", effectOf(i), err)
	}
	ran := 0
	for id, answer := range answers {
		switch code := answer.GetError().GetCode(); {
		case !answer.GetIsError():
			ran++
		case code == "DUPLICATE_EFFECT":
			p.add("refused", 1)
		case code == "OUTCOME_UNKNOWN":
			p.add("unknown", 1)
		default:
			p.broken(t, "%s under id%d: %v", effectOf(i), id, answer)
		}
	}
	p.add("had", ran)
	if ran > 1 {
		p.broken(t, "%s is said to have been had %d times: %v", effectOf(i), ran, answers)
	}
	return nil
}

// ask sends a call, and again under the same id when its sidecar was killed, or
// could not say.
func (p *effects) ask(t *testing.T, req *request, at int) (answer *response, err error) {
	t.Helper()
	for try := range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		answer, err = p.sidecars[(at+try)%len(p.sidecars)].Client.ExecuteTool(ctx, req, grpc.WaitForReady(true))
		cancel()
		switch code := answer.GetError().GetCode(); {
		case isUnavailable(err):
			p.cut.Add(1)
		case err != nil || code != "STORE_UNAVAILABLE" && code != "IN_PROGRESS":
			return answer, err
		}
	}
	return nil, fmt.Errorf("%v has no answer, after it was sent 100 times: %v, %v", req, answer, err) //nolint:errorlint // there may be none
}

// judge compares what was said with what is on disk, and asks for every effect once
// more under a new id.
func (p *effects) judge(t *testing.T, kills int) {
	t.Helper()
	before := p.world.onDisk(t)
	total := 0
	for i := range p.n {
		if n := before[effectOf(i)]; n > 1 {
			p.broken(t, "%s was had %d times", effectOf(i), n)
		}
		total += before[effectOf(i)]
	}
	var group errgroup.Group
	group.SetLimit(2 * effectsAtOnce)
	for i := range p.n {
		group.Go(func() error {
			answer, err := p.ask(t, asks(i, idsOfEach), i)
			if before[effectOf(i)] == 1 && err == nil && !answer.GetIsError() {
				p.broken(t, "%s was had, and then once more: %v", effectOf(i), answer)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		p.broken(t, "%v", err)
	}
	for effect, n := range p.world.onDisk(t) {
		if n > 1 {
			p.broken(t, "%s was had %d times", effect, n)
		}
	}
	if p.of("had") > total {
		p.broken(t, "%d effects are said to have been had, and %d were", p.of("had"), total)
	}
	if p.cut.Load() == 0 || p.of("refused") == 0 {
		t.Errorf("%d calls were cut off by %d kills, and %d refused: that shows nothing", p.cut.Load(), kills, p.of("refused"))
	}
	proof.Report(t, proof.Row{
		Fault: fmt.Sprintf("%d ids of each effect over %d sidecars, kill -9", idsOfEach, len(p.sidecars)),
		Store: p.store, Runs: p.n, Violations: p.violations,
		Figure: fmt.Sprintf("%d calls, %d kills, %d calls cut off: %d effects had, none twice; %d refused, %d told as unknown",
			p.n*idsOfEach, kills, p.cut.Load(), total, p.of("refused"), p.of("unknown")),
	})
}
