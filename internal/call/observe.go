package call

import (
	"bytes"
	"context"
	"crypto/rand"
	"math"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/observed"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/retry"
)

// A call of a profile that observes is made once, at once, on its backend: no store is asked, no
// rule, no breaker. What they would have said is found out when it has ended. What a profile may
// call at all holds as ever.

// observe makes a call and writes it down.
func (e *Executor) observe(ctx context.Context, c *call) *response {
	if c.of.Route == nil || !c.of.Profile.Allows(c.of.Route.Tool.Name) || c.of.Route.Refused != "" {
		_, refused := e.resolve(ctx, c)
		return e.respond(c, refused)
	}
	made := &admitted{checked: checked{resolved: resolved{c, c.of.Route}}}
	if c.HoldOnly {
		return e.respond(c, made.mayRun())
	}
	a := made.readAsSent()
	o := observation{e, made}
	if a == nil {
		a = o.straight(ctx).answer
	}
	line, release, lease := made.observed(), e.Hold(), c.lease.Share()
	go func() { // the response is on its way already
		defer release()
		defer lease.Release()
		o.judge(&line)
		c.of.Profile.Observe.Add(line)
	}()
	return e.respond(c, a)
}

// readAsSent reads the arguments as far as they have to be read to be sent; not nil where they
// cannot be.
func (c *checked) readAsSent() *answer {
	args, violation := c.route.Schema.ParseArgs(c.Arguments)
	if violation != nil {
		return c.result().NotValid([]tool.Error{*violation})
	}
	canonical, err := schema.Canonical(args)
	if err != nil {
		return c.result().NotValid([]tool.Error{explain.Unwritable(c.route.Tool.Name, err, c.Arguments)})
	}
	c.values, c.canonical = args, canonical
	c.known(c.call)
	return nil
}

// observation is a call that is only looked at.
type observation struct {
	*Executor

	made *admitted
}

// straight makes the one attempt of a call.
func (o observation) straight(ctx context.Context) ending {
	c := o.made
	ctx, cancel := c.deadline().bound(ctx)
	defer cancel()
	atWork, rest := o.atWork(ctx, c)
	defer rest()
	r := c.runner(rightFor(ctx, nil, c.route.Withdrawal))
	// Sent again it is another call: a key of its own keeps the upstream from telling.
	r.invocation.MaxChars, r.invocation.IdempotencyKey = math.MaxInt32, rand.Text()+rand.Text()
	c.begin()
	failure := c.tried.add(r.straight(atWork), c.effect(), false)
	c.update()
	c.log.cause, c.log.stack = c.tried.cause, c.tried.stack
	if failure != nil {
		return failing{c, failure, retry.Report{Attempts: 1}, c.effect().Harmless()}.end() // sent again it has another key
	}
	end := c.succeed()
	end.answer.Show.Limit, end.answer.Show.Untrusted, end.answer.Show.Remarks = math.MaxInt32, false, nil
	return end
}

// straight makes an attempt that no guard looks at, in the time that it may take.
func (r *runner) straight(ctx context.Context) attempt {
	ctx, progress, cancel := r.bounded(r.entrusted(ctx))
	defer cancel()
	ctx, end := r.trace.StartAttempt(ctx, r.route.Tool.Backend, 1)
	in := r.invocation
	in.Attempt, in.Progress = 1, progress
	reply, failure, stack := r.invoke(ctx, in)
	if backend.WasWithheld(failure) {
		end(failure)
		return notSent(r.withheld(*failure))
	}
	reading := r.route.Program.Interpret(reply, failure, in.Parsed)
	end(reading.Failure)
	return attempt{sent: true, reading: reading, mapped: reading.Failure != failure, stack: stack, upstreamID: upstreamID(reply.Header)}
}

// observed is what is written down of a call, but for what would have been said of it.
func (c *admitted) observed() observed.Call {
	t, reading := &c.route.Tool, &c.tried.reading
	line := observed.Call{
		At: c.start, Took: time.Since(c.start), Server: strings.TrimPrefix(c.Key.Tenant+"/"+c.of.Profile.Name, "/"), Tool: t.Name, Effect: t.Effect.String(),
		ID: c.Key.ID, Conversation: c.Key.Conversation, Turn: c.Key.Turn, Prompt: c.Prompt,
		Same: observed.Digest([]byte(t.Name), sameArguments(c)), Ended: endedAs(c, reading), Shown: c.outputLimit(),
		Most: c.of.Profile.MaxCalls, Untrusted: c.snapshot.Taints(c.route), Sensitive: t.Policy.RefuseTainted && !c.of.Profile.AllowTainted,
	}
	if reading.Failure == nil {
		line.Chars = utf8.RuneCount(reading.Reply.Text)
	}
	if line.Ended != observed.Lost {
		line.Result = observed.Digest(reading.Reply.Text, reading.Reply.Structured, []byte(line.Ended))
	}
	return line
}

func sameArguments(c *admitted) []byte {
	if c.canonical != nil {
		return c.canonical
	}
	return bytes.TrimSpace([]byte(c.Arguments))
}

func endedAs(c *admitted, reading *interpret.Reading) string {
	switch {
	case c.tried.sent == 0:
		return observed.Refused
	case reading.Failure == nil:
		return observed.OK
	case reading.Failure.Evidence == tool.Ambiguous:
		return observed.Lost
	case reading.Failure.Evidence == tool.NotExecuted:
		return observed.Refused
	default:
		return observed.Failed
	}
}

// judge adds what would have been said of a call before it was made.
func (o observation) judge(line *observed.Call) {
	defer func() {
		if p := recover(); p != nil { // which is none of the call's
			o.Recorder.Panicked(p, debug.Stack())
		}
	}()
	c, args := o.made, o.made.values
	say := func(why tool.Error) {
		line.Wrong = &observed.Wrong{Code: string(why.Code), Field: why.Field, Constraint: c.route.Secrets.Replace(why.Constraint)}
	}
	switch {
	case c.Nameless != nil:
		say(*c.Nameless)
	case c.Impossible != nil:
		say(*c.Impossible)
	case args == nil:
		say(tool.Error{Code: tool.CodeInvalidArgs, Constraint: "the arguments cannot be read"})
	default:
		if _, _, violations, err := c.route.Schema.CheckWithin(o.Life, args, len(c.Arguments)); err == nil && len(violations) > 0 {
			say(violations[0])
		}
	}
	if approval := c.route.Approval; approval != nil && c.effect() != tool.ReadOnly && line.Wrong == nil {
		line.Held, _ = approval.Asks(args)
	}
}
