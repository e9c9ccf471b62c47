package call

import (
	"context"
	"time"

	"github.com/sidecall/sidecall/call/explain"
	"github.com/sidecall/sidecall/call/result"
	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/tool"
)

// A caller may leave before its call has ended: it cancels, its connection
// breaks, its deadline passes. Then nothing more is begun for it, and a call
// without an effect ends. An effect that may have begun goes on, within the
// call's own limits, and is recorded: whoever sends the id again joins it or gets
// its result. To break it off would undo nothing, and would lose what came of it.

// goesOn reports that an attempt of the call goes on when its caller leaves.
func (c *call) goesOn() bool {
	return c.route != nil && c.route.Tool.Effect != tool.ReadOnly && !c.route.Tool.Policy.CancelWithCaller
}

// mayOutlast reports that the call may go on for longer than its caller waits.
func (c *call) mayOutlast(ctx context.Context) bool {
	return !c.ValidateOnly && c.goesOn() && c.boundedByCaller(ctx)
}

// impatient is the caller of a call that may outlast it, and is answered in time. The
// call has a goroutine of its own, which ends with it.
type impatient struct {
	lease      catalog.Lease // until the call has ended
	patience   time.Duration
	begun      chan struct{}
	unanswered result.For
	done       chan *response
	held       chan func()
}

// hurry returns the caller of a call that is about to run in another goroutine, whose
// the call is from then on.
func (c *call) hurry(ctx context.Context, lease catalog.Lease) *impatient {
	c.run.hurried, c.run.begun = true, make(chan struct{})
	return &impatient{
		lease: lease.Share(), patience: time.Until(c.callersDeadline(ctx)), begun: c.run.begun, unanswered: c.result(),
		done: make(chan *response, 1), held: make(chan func(), 1),
	}
}

// answer ends the call.
func (i *impatient) answer(res *response) {
	i.done <- res
	release(i.held)
	i.lease.Release()
}

// wait returns the result of the call; goesOn says that it goes on without one, and
// hold hears of it.
func (i *impatient) wait(ctx context.Context, hold func() (release func())) (res *response, goesOn bool) {
	timer := time.NewTimer(i.patience)
	defer timer.Stop()
	select {
	case res := <-i.done:
		return res, false
	case <-ctx.Done():
	case <-timer.C:
	}
	// Until its first attempt the call keeps to the caller's deadline itself.
	select {
	case res := <-i.done:
		return res, false
	case <-i.begun:
	}
	i.held <- hold() // this request ends now, and the call does not
	select {
	case res := <-i.done:
		release(i.held)
		return res, false
	default:
		return rendered(i.unanswered.Refused(explain.InProgress(i.unanswered.ID), explain.WhenInProgress)), true
	}
}

// release lets go of a call that is held, unless the other side has.
func release(held <-chan func()) {
	select {
	case release := <-held:
		release()
	default:
	}
}

// begin notes that an attempt is about to be made, for whoever waits for the first.
func (c *call) begin() {
	if c.run.begun != nil {
		close(c.run.begun)
		c.run.begun = nil
	}
	c.run.tried.begin()
}

// Held implements backend.Right: the call may be sent while its claim holds, and
// somebody waits for it, and its tool is not refused since.
func (c *call) Held() bool {
	return (c.run.claim == nil || c.run.claim.Held()) && c.run.caller.Err() == nil && c.route.Withdrawal.Why() == ""
}

// apart is the context of what goes on without the caller: it has the caller's
// values, and ends with the executor's life.
type apart struct {
	context.Context // the executor's life

	caller context.Context
}

// Value implements context.Context. The life is asked first: it knows nothing but
// its own end, by which the contexts made of this one find it.
func (a apart) Value(key any) any {
	if v := a.Context.Value(key); v != nil {
		return v
	}
	return a.caller.Value(key)
}

// atWork is the context that the attempts of a call are made in: ctx, or for what
// goes on when its caller leaves, one that the caller cannot end.
func (e *Executor) atWork(ctx context.Context, c *call) (context.Context, context.CancelFunc) {
	if !c.goesOn() {
		return ctx, func() {}
	}
	end, why := c.ownDeadline()
	if c.run.hurried && c.run.claim != nil {
		c.run.claim.KeepUntil(end)
	}
	return context.WithDeadlineCause(apart{e.Life, ctx}, end, why)
}

// answerMargin is kept back from the caller's deadline, so that the result of
// a call that used all its time still reaches the caller.
const answerMargin = 50 * time.Millisecond

// withDeadline bounds ctx by the tool's deadline, the request's timeout and the
// caller's own deadline less a margin for the answer.
func (c *call) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, why := c.ownDeadline()
	if c.boundedByCaller(ctx) {
		deadline, why = c.callersDeadline(ctx), errCallersDeadline
	}
	return context.WithDeadlineCause(ctx, deadline, why)
}

// ownDeadline is that of the tool, or sooner when the request says so; why says whose it
// is.
func (c *call) ownDeadline() (end time.Time, why error) {
	limit, why := c.route.Tool.Policy.Deadline, errCallDeadline
	if c.Timeout > 0 && c.Timeout < limit {
		limit, why = c.Timeout, errCallersDeadline
	}
	return c.start.Add(limit), why
}

// boundedByCaller reports that the caller does not wait for the call's own
// deadline.
func (c *call) boundedByCaller(ctx context.Context) bool {
	callers := c.callersDeadline(ctx)
	own, _ := c.ownDeadline()
	return !callers.IsZero() && callers.Before(own)
}

// callersDeadline is when the caller is to be answered; zero when it waits for as
// long as it takes.
func (c *call) callersDeadline(ctx context.Context) time.Time {
	callers, ok := ctx.Deadline()
	if !ok {
		return time.Time{}
	}
	return callers.Add(-min(answerMargin, time.Until(callers)/10))
}
