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
	caller := ctx      // its end, and not that of the call, says that the caller has left
	var made *admitted // nil until it may be made
	defer func() {
		if p := recover(); p != nil {
			res = e.afterBug(caller, c, made, p)
		}
		e.tell(caller, c, res)
	}()
	defer c.leave()
	c.Bytes = cmp.Or(c.Bytes, e.Bytes)
	c.stay.load.Of(c.Bytes)
	if c.observes() {
		return e.observe(ctx, c)
	}
	ready, refusal := e.check(ctx, c)
	if refusal != nil {
		return e.respond(c, e.unlessKnown(ctx, c, refusal))
	}
	ctx, cancel := ready.deadline().bound(ctx)
	defer cancel()
	made = &admitted{checked: ready}
	heard, answer := e.claim(ctx, made) // store round trip 1
	if answer == nil && c.HoldOnly {
		answer = made.mayRun()
	}
	if answer != nil {
		return e.respond(c, answer)
	}
	failpoint.Hit(failpoint.ClaimWon)
	if refused := c.rules.hear(nil, heard); refused != nil {
		return e.settle(ctx, made, refusedAfterClaim(refused))
	}
	atWork, rest := e.atWork(ctx, made) // goes on when the caller leaves
	defer rest()
	end := e.run(ctx, atWork, made)
	if end.state == dedupe.Unknown {
		end = e.verify(atWork, made, end)
	}
	return e.settle(ctx, made, end) // store round trip 2
}

// check does what can be done before the store is asked: it finds the tool, a place, and
// what is wrong with the call, if anything.
func (e *Executor) check(ctx context.Context, c *call) (checked, refusal) {
	if c.Nameless != nil {
		return checked{}, always(c.result().Refused(*c.Nameless, 0))
	}
	r, refused := e.resolve(ctx, c)
	if refused != nil {
		return checked{}, always(refused)
	}
	if !e.seat(r) { // joins the line of its duplicates, and sits down if it leads
		return checked{}, r.atCapacity
	}
	refs, refused := e.dereference(ctx, r)
	if refused != nil {
		return checked{}, always(refused)
	}
	ready, refused := r.validate(ctx, refs)
	if refused != nil {
		return checked{}, always(refused)
	}
	if refused := c.rules.check(); refused != nil {
		return checked{}, always(refused)
	}
	return ready, nil
}

// resolve finds the tool and checks that the profile may call it.
func (e *Executor) resolve(ctx context.Context, c *call) (resolved, *answer) {
	r := resolved{c, c.of.Route}
	if c.Impossible != nil {
		return r, c.result().Refused(*c.Impossible, 0)
	}
	if !c.ValidateOnly {
		e.bind(c)
	}
	if c.of.UnknownProfile {
		return r, c.result().Refused(explain.UnknownProfile(c.Profile, c.snapshot.Profiles.Names(c.Offered...)), 0)
	}
	profile := &c.of.Profile
	if r.route == nil {
		if awaited := c.snapshot.MayHave(c.Tool); len(awaited) > 0 && profile.Allows(c.Tool) {
			name := tool.Shorten(c.Tool, maxToolName)
			return r, c.result().Refused(explain.Undiscovered(name, awaited), explain.WhenUndiscovered)
		}
		return r, c.unknownTool(ctx, offered(&c.of))
	}
	if !profile.Allows(r.route.Tool.Name) {
		forbidden := c.result().Refused(explain.Forbidden(r.route.Tool.Name, profile.Name), 0)
		forbidden.Alternatives = explain.Open(c.snapshot, schema.Instead(offer(r.route), offered(&c.of), 3))
		return r, forbidden
	}
	if r.route.Refused != "" {
		pinned := explain.Pinned(r.route.Tool.Name, r.route.Refused)
		c.log.by = ruling{"definition", pinned.Code}
		return r, c.result().Refused(pinned, 0)
	}
	return r, nil
}

// afterBug makes a result of a panic in the pipeline, and settles the claim, if
// there is one, by what had been sent until then.
func (e *Executor) afterBug(ctx context.Context, c *call, made *admitted, p any) (res *response) {
	id := "err_" + rand.Text()[:12]
	c.log.cause, c.log.stack = fmt.Errorf("%s: panic: %v", id, p), string(debug.Stack())
	c.rules.all = nil // which may have the bug
	end := c.notRun(explain.Interrupted(id), &tool.Failure{})
	if c.of.Route != nil {
		end = resolved{c, c.of.Route}.afterBug(end)
	}
	defer func() {
		if p := recover(); p != nil { // the bug is in the settlement
			e.Recorder.Panicked(p, debug.Stack())
			end.answer.Recorded = false
			res = rendered(end.answer)
		}
	}()
	if made == nil {
		return e.respond(c, end.answer)
	}
	return e.settle(ctx, made, end)
}
