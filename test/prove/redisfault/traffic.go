//go:build prove

package redisfault

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/redisstore"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/prove/proof"
)

const (
	// width is how many ids are under way at a time, duplicates how often each
	// is called at the same time, by two sidecars in turn.
	width      = 48
	duplicates = 4
)

// patience bounds one call, for a caller who asks again after each error. In full
// size it judges how soon he is told; in the short form, which may have the machine
// for itself in part only, that he ever is.
var patience = proof.Pick(time.Minute, 20*time.Second)

// workload makes calls of which each must run once, whatever the store suffers.
type workload struct {
	tb       testing.TB
	sidecars []*dedupe.Dedupe

	// violations are kept as sentences, at most a few.
	mu         sync.Mutex
	violations int
	sentences  []string

	ids, executions, replays, again, givenBack atomic.Int64
}

// oneCall is what is known of one id.
type oneCall struct {
	key        tool.CallID
	executions atomic.Int64
	failed     atomic.Int64 // requests that the store could not answer
	epoch      atomic.Int64 // at which it was won
	result     atomic.Value // []byte, of whoever executes it
}

// want is the result that every duplicate must get; nil before it was executed.
func (c *oneCall) want() []byte {
	result, _ := c.result.Load().([]byte)
	return result
}

// newWorkload makes calls through two sidecars' parts, each with its own
// connections to the store.
func newWorkload(tb testing.TB, options redisstore.Options) *workload {
	tb.Helper()
	w := &workload{tb: tb}
	for i := range 2 {
		store := redisstore.New(options)
		d := dedupe.New(store, dedupe.Options{Lease: time.Minute, Incarnation: fmt.Sprint("sidecar-", i)})
		tb.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := d.Close(ctx); err != nil {
				tb.Error(err)
			}
		})
		w.sidecars = append(w.sidecars, d)
	}
	return w
}

// run makes calls until enough is true, and checks each.
func (w *workload) run(enough func() bool, check func(*oneCall)) {
	var workers sync.WaitGroup
	for range width {
		workers.Go(func() {
			for !enough() && !w.hopeless() {
				c := &oneCall{key: tool.CallID{Tenant: "t", Conversation: "c", ID: fmt.Sprint("id", w.ids.Add(1))}}
				w.callAtOnce(c)
				check(c)
			}
		})
	}
	workers.Wait()
}

// callAtOnce calls an id several times at the same time.
func (w *workload) callAtOnce(c *oneCall) {
	var callers sync.WaitGroup
	for i := range duplicates {
		callers.Go(func() { w.call(c, w.sidecars[i%len(w.sidecars)]) })
	}
	callers.Wait()
	if n := c.executions.Load(); n != 1 {
		w.violated("%s was executed %d times", c.key.ID, n)
	}
	// Asked only now: what is given back may be won before the one who gave it
	// back has heard of it.
	if epoch := c.epoch.Load(); epoch > 1 {
		w.givenBack.Add(1)
		if c.failed.Load() == 0 {
			w.violated("%s was won at epoch %d, though nobody had given it back", c.key.ID, epoch)
		}
	}
}

// call asks until it is told what became of the call.
func (w *workload) call(c *oneCall, d *dedupe.Dedupe) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		admission, claim, err := storetest.Admit(ctx, d, dedupe.Request{Key: c.key, Tool: "pay", Effect: tool.NonIdempotent, Fingerprint: [32]byte{1}})
		switch {
		case ctx.Err() != nil:
			w.violated("%s got no answer in %v: %v", c.key.ID, patience, err)
			return
		case err != nil:
			c.failed.Add(1)
			w.again.Add(1)
			continue
		case claim != nil:
			w.execute(ctx, c, claim)
		case admission.Verdict != dedupe.Replay:
			w.violated("%s is %v, and was executed %d times", c.key.ID, admission.Verdict, c.executions.Load())
		case !bytes.Equal(admission.Record.Result, c.want()):
			w.violated("%s replays %x, and its result was %x", c.key.ID, admission.Record.Result, c.want())
		default:
			w.replays.Add(1)
		}
		return
	}
}

// execute is what a winner does.
func (w *workload) execute(ctx context.Context, c *oneCall, claim *dedupe.Claim) {
	if n := c.executions.Add(1); n > 1 {
		w.violated("%s was executed for the %dth time", c.key.ID, n)
		return
	}
	w.executions.Add(1)
	c.epoch.Store(claim.Record().Epoch)
	result := []byte(rand.Text())
	c.result.Store(result)
	verdict, err := claim.Settle(ctx, dedupe.Settlement{State: dedupe.Done, Attempts: 1, Result: result})
	if err != nil || verdict != dedupe.Settled {
		w.violated("%s is settled with verdict %d, %v", c.key.ID, verdict, err)
	}
}

func (w *workload) violated(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.violations++; len(w.sentences) < 10 {
		w.sentences = append(w.sentences, fmt.Sprintf(format, args...))
		w.tb.Error(w.sentences[len(w.sentences)-1])
	}
}

// hopeless ends a workload that has failed already.
func (w *workload) hopeless() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.violations > 100
}

// recorded returns a check that reads the record of a call past the proxy.
func (w *workload) recorded(addr string) func(*oneCall) {
	store := redisstore.New(redisstore.Options{Addrs: []string{addr}})
	w.tb.Cleanup(func() {
		if err := store.Close(); err != nil {
			w.tb.Error(err)
		}
	})
	return func(c *oneCall) {
		record, err := storetest.Lookup(context.Background(), store, c.key)
		if err != nil || record.State != dedupe.Done || !bytes.Equal(record.Result, c.want()) {
			w.violated("%s is recorded as %v with %x, not %x: %v", c.key.ID, record.State, record.Result, c.want(), err)
		}
	}
}
