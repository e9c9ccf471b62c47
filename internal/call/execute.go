// Package call is the pipeline that a call goes through: one result for every
// call, never twice.
//
// execute.go is the page to read first. Below this package are the words for
// models (explain), the shape of a response (result) and the look at what
// became of a call whose answer was lost (verify).
package call

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"runtime/debug"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/failpoint"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

// Execute runs one call of what a lease has and returns its one result. It always
// returns a result, never an error: what goes wrong is data for the model. One that
// is too large for a response is made to fit. The lease stays its taker's, who
// releases it.
func (e *Executor) Execute(ctx context.Context, lease catalog.Lease, req Request) *response {
	c := newCall(lease.Snapshot, req)
	if caller := c.hurry(ctx, lease); caller != nil {
		go func() { caller.answer(e.execute(ctx, c)) }() // ends with the call
		res, _ := caller.wait(ctx, e.Hold)
		return result.Fit(req.Key, res)
	}
	return result.Fit(req.Key, e.execute(ctx, c))
}

// execute is the pipeline. Each step either lets the call go on or returns the
// answer that ends it.
func (e *Executor) execute(ctx context.Context, c *call) (res *response) {
	ctx, c.log.trace = e.Recorder.StartCall(ctx, infoOf(c), c.start)
	caller := ctx // its end, and not that of the call, says that the caller has left
	defer func() {
		if p := recover(); p != nil {
			res = e.afterBug(caller, c, p)
		}
		e.tell(caller, c, res)
	}()
	defer c.leave()
	c.Bytes = cmp.Or(c.Bytes, e.Bytes)
	c.stay.load.Of(c.Bytes)
	if c.observes() {
		return e.observe(ctx, c)
	}
	if refusal := e.check(ctx, c); refusal != nil {
		return e.respond(c, e.unlessKnown(ctx, c, refusal))
	}
	ctx, cancel := c.deadline().bound(ctx)
	defer cancel()
	heard, answer := e.claim(ctx, c) // store round trip 1
	if answer == nil && c.HoldOnly {
		answer = c.mayRun()
	}
	if answer != nil {
		return e.respond(c, answer)
	}
	failpoint.Hit(failpoint.ClaimWon)
	if refused := c.held.hear(nil, heard); refused != nil {
		return e.settle(ctx, c, refusedAfterClaim(refused))
	}
	atWork, rest := e.atWork(ctx, c) // goes on when the caller leaves
	defer rest()
	end := e.run(ctx, atWork, c)
	if end.state == dedupe.Unknown {
		end = e.verify(atWork, c, end)
	}
	return e.settle(ctx, c, end) // store round trip 2
}

// check does what can be done before the store is asked: it finds the tool, a place, and
// what is wrong with the call. nil lets it go on.
func (e *Executor) check(ctx context.Context, c *call) refusal {
	if c.Nameless != nil {
		return always(c.result().Refused(*c.Nameless, 0))
	}
	if refused := e.resolve(ctx, c); refused != nil {
		return always(refused)
	}
	if !e.seat(c) { // joins the line of its duplicates, and sits down if it leads
		return c.noRoom
	}
	if refused := e.dereference(ctx, c); refused != nil {
		return always(refused)
	}
	if refused := c.validate(ctx); refused != nil {
		return always(refused)
	}
	if refused := c.held.check(); refused != nil {
		return always(refused)
	}
	return nil
}

// resolve finds the tool and checks that the profile may call it.
func (e *Executor) resolve(ctx context.Context, c *call) *answer {
	if c.Impossible != nil {
		return c.result().Refused(*c.Impossible, 0)
	}
	if !c.ValidateOnly {
		e.hold(c)
	}
	if c.of.Stranger {
		return c.result().Refused(explain.UnknownProfile(c.Profile, c.snapshot.Profiles.Names(c.Offered...)), 0)
	}
	profile := &c.of.Profile
	if c.route == nil {
		if awaited := c.snapshot.MayHave(c.Tool); len(awaited) > 0 && profile.Allows(c.Tool) {
			name := tool.Shorten(c.Tool, maxToolName)
			return c.result().Refused(explain.Undiscovered(name, awaited), explain.WhenUndiscovered)
		}
		return c.unknownTool(ctx, offered(&c.of))
	}
	if !profile.Allows(c.route.Tool.Name) {
		forbidden := c.result().Refused(c.subject().Forbidden(*profile), 0)
		forbidden.Alternatives = c.subject().Open(schema.Instead(offer(c.route), offered(&c.of), 3))
		return forbidden
	}
	if c.route.Refused != "" {
		c.log.rule = "definition"
		return c.result().Refused(c.subject().Pinned(), 0)
	}
	return nil
}

// afterBug makes a result of a panic in the pipeline, and settles the claim, if
// there is one, by what had been sent until then.
func (e *Executor) afterBug(ctx context.Context, c *call, p any) (res *response) {
	id := "err_" + rand.Text()[:12]
	c.log.cause, c.log.stack = fmt.Errorf("%s: panic: %v", id, p), string(debug.Stack())
	c.held.rules = nil // which may have the bug
	end := c.afterBug(explain.Interrupted(id))
	defer func() {
		if p := recover(); p != nil { // the bug is in the settlement
			e.Recorder.Panicked(p, debug.Stack())
			end.answer.Recorded = false
			res = rendered(end.answer)
		}
	}()
	return e.settle(ctx, c, end)
}
