package histories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// Client makes the operations of one participant of a history, one after the
// other, at random: claims, renewals, settlements, right ones and wrong ones.
type Client struct {
	Plan
	// Number is unique in the history, Clients how many there are; Phase counts
	// the incarnations of a store that the history has lived through.
	Number, Clients, Phase int
	Store                  dedupe.Store
	// Now is the time of CLOCK_MONOTONIC in nanoseconds.
	Now func() int64
	// Resends is a count that is odd while a connection is being cut, and that
	// has changed after one was; nil when no connection is.
	Resends func() uint64
	// Begun, when not nil, is told of each operation before it is made.
	Begun func(Operation)
	// Ended is told of each operation after its answer, or after it was given up.
	Ended func(Operation)

	random *rand.Rand
	seq    int
	owners int
	// What it knows of each key: its last claim, whether it still has to settle
	// it, and the last record that it was told of.
	claim []Operation
	holds []bool
	seen  []Record
}

// Run makes the operations. It ends early when the store is closed.
func (c *Client) Run(ctx context.Context) {
	c.random = rand.New(rand.NewPCG(c.Seed^uint64(c.History)<<20, uint64(c.Number)<<8|uint64(c.Phase)))
	c.claim, c.holds, c.seen = make([]Operation, c.Keys), make([]bool, c.Keys), make([]Record, c.Keys)
	for range c.Ops {
		c.pause()
		if c.do(ctx, c.choose()) {
			return
		}
	}
}

// Conclude asks what became of every key.
func (c *Client) Conclude(ctx context.Context) {
	c.random = rand.New(rand.NewPCG(c.Seed, uint64(c.History)))
	c.claim, c.holds, c.seen = make([]Operation, c.Keys), make([]bool, c.Keys), make([]Record, c.Keys)
	c.Unheard = 0
	for key := range c.Keys {
		c.do(ctx, Operation{Kind: Lookup, Key: key})
		c.do(ctx, c.admit(key))
		c.do(ctx, Operation{Kind: Lookup, Key: key})
	}
}

// pause lets leases run out now and then.
func (c *Client) pause() {
	if c.random.IntN(4) == 0 {
		time.Sleep(rand.N(c.Leases[len(c.Leases)-1])) // random moments are the point
	}
}

// choose picks the next operation.
func (c *Client) choose() Operation {
	key := c.random.IntN(c.Keys)
	if c.holds[key] {
		return c.chooseHolding(key)
	}
	switch n := c.random.IntN(100); {
	case n < 55:
		return c.admit(key)
	case n < 62: // once more, as if the answer had not been heard
		return c.again(key)
	case n < 69:
		return c.settle(key, c.claim[key].Owner, c.claim[key].Epoch) // late, or said before
	case n < 74:
		return c.settle(key, c.anyOwner(), c.anyEpoch())
	case n < 79:
		return c.giveBack(key, c.claim[key].Owner)
	case n < 83:
		return c.renew(key, c.claim[key].Owner, c.claim[key].Epoch)
	case n < 86:
		return c.renew(key, c.anyOwner(), c.anyEpoch())
	case n < 90:
		return c.resolve(key)
	case n < 94:
		return c.decide(key)
	case n < 95:
		return c.restore(key)
	case n < 97:
		return c.close(key)
	default:
		return Operation{Kind: Lookup, Key: key}
	}
}

func (c *Client) chooseHolding(key int) Operation {
	mine := c.claim[key]
	switch n := c.random.IntN(100); {
	case n < 42:
		return c.settle(key, mine.Owner, mine.Epoch)
	case n < 50:
		return c.ask(c.settle(key, mine.Owner, mine.Epoch))
	case n < 68:
		return c.renew(key, mine.Owner, mine.Epoch)
	case n < 76:
		return c.again(key)
	case n < 80:
		return c.settle(key, mine.Owner, c.anyEpoch())
	case n < 84:
		return c.settle(key, c.anyOwner(), mine.Epoch)
	case n < 88:
		return c.renew(key, c.anyOwner(), mine.Epoch)
	case n < 91:
		return c.giveBack(key, mine.Owner)
	case n < 94:
		return c.resolve(key)
	case n < 97:
		return c.restore(key)
	default:
		return Operation{Kind: Lookup, Key: key}
	}
}

func (c *Client) admit(key int) Operation {
	c.owners++
	op := Operation{
		Kind: Admit, Key: key, Owner: c.owner(c.Phase, c.Number, c.owners), Effect: pick(c.random, c.Effects),
		Lease: pick(c.random, c.Leases), Retention: c.Retention,
	}
	if c.random.IntN(12) == 0 {
		op.Content = byte(1 + c.random.IntN(contents-1))
	}
	op.Lease = min(op.Lease, op.Retention)
	c.hold(&op)
	return op
}

// again repeats the last request for a claim.
func (c *Client) again(key int) Operation {
	last := c.claim[key]
	if last.Kind != Admit {
		return c.admit(key)
	}
	return Operation{
		Kind: Admit, Key: key, Owner: last.Owner, Effect: last.Effect, Content: last.Content,
		Lease: last.Lease, Retention: last.Retention, Hold: last.Hold, Standing: last.Standing, Only: c.random.IntN(4) == 0,
	}
}

func (c *Client) settle(key int, owner string, epoch int64) Operation {
	if owner == "" {
		owner, epoch = c.anyOwner(), c.anyEpoch()
	}
	op := Operation{
		Kind: Settle, Key: key, Owner: owner, Epoch: max(epoch, 1), To: dedupe.NotRun, Attempts: 1 + c.random.IntN(3), Retention: c.Retention,
	}
	switch n := c.random.IntN(10); {
	case n < 3:
		op.To = dedupe.Done
	case n < 5:
		op.To = dedupe.Unknown
	}
	// Sometimes the result that another settlement of this claim had.
	op.Result = fmt.Sprintf("%s says %d", owner, c.random.IntN(3))
	return op
}

// giveBack returns a claim that may exist.
func (c *Client) giveBack(key int, owner string) Operation {
	op := c.settle(key, owner, 0)
	op.Epoch, op.To = 0, dedupe.NotRun
	return op
}

// resolve decides about a record that it was told of.
func (c *Client) resolve(key int) Operation {
	seen := c.seen[key]
	op := c.settle(key, seen.Owner, seen.Epoch)
	op.Resolves = true
	if op.To == dedupe.Unknown {
		op.To = dedupe.NotRun
	}
	return op
}

func (c *Client) renew(key int, owner string, epoch int64) Operation {
	if owner == "" {
		owner, epoch = c.anyOwner(), c.anyEpoch()
	}
	lease := min(pick(c.random, c.Leases), c.Retention)
	last := c.admit(key)
	return Operation{
		Kind: Renew, Key: key, Owner: owner, Epoch: max(epoch, 1), Effect: last.Effect, Content: last.Content,
		Started: longAgo, Lease: lease, Retention: c.Retention,
	}
}

// longAgo is when a claim was made that the store has never heard of.
const longAgo = int64(1e12 * time.Millisecond)

// restore says that a claim runs: the last one or, when there is none, one that
// the store can only have forgotten.
func (c *Client) restore(key int) Operation {
	last := c.claim[key]
	if !last.Heard || last.Verdict != dedupe.Won {
		last = c.admit(key)
		last.Epoch, last.Record.Started = c.anyEpoch(), longAgo
	}
	return Operation{
		Kind: Renew, Key: key, Owner: last.Owner, Epoch: last.Epoch, Effect: last.Effect, Content: last.Content,
		Started: last.Record.Started, Lease: last.Lease, Retention: last.Retention,
	}
}

// anyOwner guesses somebody's token.
func (c *Client) anyOwner() string {
	return c.owner(c.random.IntN(c.Phase+1), c.random.IntN(c.Clients), 1+c.random.IntN(3))
}

func (c *Client) anyEpoch() int64 { return 1 + c.random.Int64N(3) }

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// do makes an operation and tells of it; over says that the store is closed.
func (c *Client) do(ctx context.Context, op Operation) (over bool) {
	op.History, op.Client, op.Seq = c.History, c.Number, c.seq
	c.seq++
	if c.random.IntN(1000) < c.Unheard {
		var cancel context.CancelFunc
		ctx, cancel = c.givenUp(ctx)
		defer cancel()
	}
	op.Call, op.Return = c.Now(), Never
	if c.Begun != nil {
		c.Begun(op)
	}
	var resends uint64
	if c.Resends != nil {
		resends = c.Resends()
	}
	err := op.ask(ctx, c.Store, c.Plan)
	if c.Resends != nil {
		op.Sends = sendsBetween(resends, c.Resends(), op.Kind, err == nil)
	}
	if err == nil {
		op.Heard, op.Return = true, c.Now()
		c.learn(op)
	} else {
		op.Error = err.Error()
		op.Broken = errors.Is(err, dedupe.ErrCorrupt) || errors.Is(err, dedupe.ErrInvalid) || errors.Is(err, dedupe.ErrFull)
		if op.Kind == Admit {
			c.claim[op.Key] = op // it may be ours
		}
	}
	c.Ended(op)
	return errors.Is(err, dedupe.ErrClosed)
}

// givenUp is a context that ends at a random moment, by a deadline or without.
func (c *Client) givenUp(ctx context.Context) (context.Context, context.CancelFunc) {
	after := time.Duration(c.random.IntN(1500)) * time.Microsecond
	if c.random.IntN(2) == 0 {
		return context.WithTimeout(ctx, after)
	}
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(after, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

// sendsBetween is how often a request may have been sent again: it was if a
// connection was cut while it was under way, and at most twice. One that was
// given up, or whose answer was lost, is under way for nobody knows how long: it
// may lie in a group with others, which is sent again when the client is gone.
func sendsBetween(before, after uint64, kind Kind, heard bool) int {
	const most = 2
	switch {
	case kind == Lookup:
		return 0
	case !heard:
		return most
	case before == after && before%2 == 0:
		return 0
	default:
		return int(min((after+1)/2-before/2, most))
	}
}

// ask makes the request.
func (o *Operation) ask(ctx context.Context, store dedupe.Store, plan Plan) (err error) {
	key := plan.Key(o.Key)
	switch o.Kind {
	case Admit:
		var a dedupe.Admission
		a, err = store.Admit(ctx, dedupe.Request{
			Key: key, Tool: toolOf(o.Content), Effect: o.Effect, Fingerprint: fingerprintOf(o.Content),
			Owner: o.Owner, Lease: o.Lease, Retention: o.Retention, Hold: o.asks(), HoldOnly: o.Only,
		})
		o.Verdict, o.Record = a.Verdict, told(a.Record)
	case Settle:
		var v dedupe.SettleVerdict
		v, err = store.Settle(ctx, dedupe.Settlement{
			Key: key, Owner: o.Owner, Epoch: o.Epoch, State: o.To, Attempts: o.Attempts, Result: []byte(o.Result),
			Retention: o.Retention, Resolves: o.Resolves, HoldFor: o.Hold, Approval: []byte(o.Approval),
		})
		o.OK = v == dedupe.Settled
	case Renew:
		var r dedupe.Record
		claim := dedupe.Record{
			State: dedupe.Claimed, Epoch: o.Epoch, Owner: o.Owner, Tool: toolOf(o.Content), Effect: o.Effect,
			Fingerprint: fingerprintOf(o.Content), StartedAt: time.Unix(0, o.Started).UTC(),
		}
		r, o.OK, err = store.Renew(ctx, dedupe.Renewal{
			Key: key, Lease: o.Lease, Retention: o.Retention, Claim: dedupe.Origin{Record: claim},
		})
		o.Record = told(r)
	case Lookup:
		var seen dedupe.Known
		seen, err = store.Note(ctx, dedupe.Note{Key: key})
		o.Record = told(seen.Record)
	case Close:
		o.OK, err = o.answer(ctx, store, key)
	case Reopen, end:
		panic("an operation that no client makes")
	default:
		panic(fmt.Sprintf("no such kind of operation: %d", o.Kind))
	}
	return err
}

// learn keeps what an answer says.
func (c *Client) learn(op Operation) {
	switch op.Kind {
	case Admit:
		c.seen[op.Key] = op.Record
		if op.Verdict == dedupe.Won {
			c.claim[op.Key], c.holds[op.Key] = op, true
			c.claim[op.Key].Epoch = op.Record.Epoch
		}
	case Lookup:
		c.seen[op.Key] = op.Record
	case Renew:
		c.seen[op.Key] = op.Record
		if op.Owner == c.claim[op.Key].Owner && !op.renewed() {
			c.holds[op.Key] = false
		}
	case Settle:
		if op.Owner == c.claim[op.Key].Owner && op.OK {
			c.holds[op.Key] = false
		}
	case Close:
	case Reopen, end: // no client's
	}
}
