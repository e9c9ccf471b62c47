package call

import (
	"context"
	"sync"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/tool"
)

// A caller may leave before its call has ended: it cancels, its connection
// breaks, its deadline passes. Then nothing more is begun for it, and a call
// without an effect ends. An effect that may have begun goes on, within the
// call's own limits, and is recorded: whoever sends the id again joins it or gets
// its result. To break it off would undo nothing, and would lose what came of it.

// goesOn reports that an attempt of the call goes on when its caller leaves.
func (r resolved) goesOn() bool {
	return r.effect() != tool.ReadOnly && !r.route.Tool.Policy.CancelWithCaller
}

// impatient is the caller of a call that may outlast it, and is answered in time. The
// call has a goroutine of its own, which ends with it.
type impatient struct {
	lease      catalog.Lease // until the call has ended
	patience   time.Duration
	begun      chan struct{} // closed when the first attempt is about to be made
	first      sync.Once
	unanswered result.For
	done       chan *response
	held       chan func()
}

// hurry returns the caller of a call that it may not wait for, which is about to run in a
// goroutine of its own, whose it is from then on; nil where it waits.
func (c *call) hurry(ctx context.Context, lease catalog.Lease) *impatient {
	if c.observes() {
		c.lease = lease // which what is written down afterwards shares
		return nil
	}
	r := resolved{c, c.of.Route}
	if c.runsNothing() || r.route == nil || !r.goesOn() {
		return nil
	}
	patience, sooner := r.deadline().cutBy(ctx)
	if !sooner {
		return nil
	}
	c.caller = &impatient{
		lease: lease.Share(), patience: time.Until(patience.end), begun: make(chan struct{}), unanswered: c.result(),
		done: make(chan *response, 1), held: make(chan func(), 1),
	}
	return c.caller
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
func (c *admitted) begin() {
	if c.caller != nil {
		c.caller.first.Do(func() { close(c.caller.begun) })
	}
	c.tried.begin()
	c.update()
}

// right is a backend.Right.
type right func() bool

// Held implements backend.Right.
func (r right) Held() bool { return r() }

// rightFor is the right to send a call: while its claim holds, and its caller waits for it,
// and its tool is not refused since.
func rightFor(caller context.Context, claim *dedupe.Claim, withdrawal *catalog.Withdrawal) right {
	return func() bool {
		return (claim == nil || claim.Held()) && caller.Err() == nil && withdrawal.Why() == ""
	}
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
func (e *Executor) atWork(ctx context.Context, c *admitted) (context.Context, context.CancelFunc) {
	if !c.goesOn() {
		return ctx, func() {}
	}
	own := c.deadline()
	if c.caller != nil && c.claim != nil {
		c.claim.KeepUntil(own.end)
	}
	return context.WithDeadlineCause(apart{e.Life, ctx}, own.end, own.why)
}

// deadline is when a call is over, and whose end that is.
type deadline struct {
	end time.Time
	why error
}

// deadline is that of the tool, or sooner when the request says so.
func (r resolved) deadline() deadline {
	limit, why := r.route.Tool.Policy.Deadline, errCallDeadline
	if r.Timeout > 0 && r.Timeout < limit {
		limit, why = r.Timeout, errCallersDeadline
	}
	return deadline{r.start.Add(limit), why}
}

// cutBy is the deadline of a caller that does not wait as long; false of one that does.
func (d deadline) cutBy(caller context.Context) (deadline, bool) {
	end, ok := caller.Deadline()
	if !ok {
		return d, false
	}
	end = end.Add(-min(answerMargin, time.Until(end)/10))
	return deadline{end, errCallersDeadline}, end.Before(d.end)
}

// answerMargin is kept back from the caller's deadline, so that the result of
// a call that used all its time still reaches the caller.
const answerMargin = 50 * time.Millisecond

// bound bounds what is done for a caller by the deadline, and by the caller's own.
func (d deadline) bound(caller context.Context) (context.Context, context.CancelFunc) {
	if cut, sooner := d.cutBy(caller); sooner {
		d = cut
	}
	return context.WithDeadlineCause(caller, d.end, d.why)
}
