package worker

import (
	"context"
	"errors"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/failpoint"
	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// lastWord is how long a worker has to say what became of a call that was
	// cancelled.
	lastWord = time.Second
	// shortWord is what it has when the time of the whole call is over.
	shortWord = 25 * time.Millisecond
)

// Invoke implements backend.Backend: one call of a function.
func (b *Backend) Invoke(ctx context.Context, call backend.Invocation) (tool.Reply, *tool.Failure) {
	if ctx.Err() != nil {
		return tool.Reply{}, ended(ctx, tool.NotExecuted)
	}
	inv := &invocation{id: strconv.FormatUint(b.numbered.Add(1), 10), call: call, ctx: ctx, done: make(chan outcome, 1)}
	inv.command = inv.onTheWire()
	if most := max(b.cfg().MaxMessage, defaultMaxMessage); int64(proto.Size(inv.command)) > most {
		return tool.Reply{}, tooLarge(most)
	}
	failpoint.Hit(failpoint.RequestUnsent)
	b.mu.Lock()
	b.roster.place(inv) // or put in line for one
	inv.unserved = inv.state == waiting && !b.roster.serves(&inv.call)
	b.mu.Unlock()
	look := time.NewTimer(patience)
	defer look.Stop()
	for {
		select {
		case o := <-inv.done:
			failpoint.Hit(failpoint.ResponseRead)
			if hasEnded(ctx) { // both at once
				return o.readLate(ctx, &inv.call)
			}
			return o.read(&inv.call)
		case <-look.C:
			if failure := b.lookAgain(inv); failure != nil {
				return tool.Reply{}, failure
			}
			look.Reset(patience)
		case <-ctx.Done():
			return b.giveUp(ctx, inv)
		}
	}
}

// hasEnded reports whether a context has ended. One whose time is over may not have said so
// yet, and its function has been told by the clock of its worker.
func hasEnded(ctx context.Context) bool {
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// lookAgain ends the wait of a call whose tool nobody serves, and did not when it was
// looked at before.
func (b *Backend) lookAgain(inv *invocation) *tool.Failure {
	b.mu.Lock()
	defer b.mu.Unlock()
	if inv.state != waiting {
		return nil
	}
	before := inv.unserved
	inv.unserved = !b.roster.serves(&inv.call)
	if !before || !inv.unserved {
		return nil
	}
	b.roster.leaveLine(inv)
	inv.state = over
	return away(b.cfg().Name)
}

// giveUp ends a call whose context has ended.
func (b *Backend) giveUp(ctx context.Context, inv *invocation) (tool.Reply, *tool.Failure) {
	b.mu.Lock()
	switch inv.state {
	case waiting:
		b.roster.leaveLine(inv)
		inv.state = over
		b.mu.Unlock()
		return tool.Reply{}, notServed(ctx, inv.unserved, b.cfg().Name)
	case queued:
		inv.state = over
		inv.session.unsay(inv)
		b.roster.release(inv)
		b.mu.Unlock()
		return tool.Reply{}, ended(ctx, tool.NotExecuted)
	case sent:
		inv.session.say(cancelled(inv.id))
	case over: // in this moment
	}
	b.mu.Unlock()
	word := time.NewTimer(wordWithin(ctx, inv.call.Effect))
	defer word.Stop()
	select {
	case o := <-inv.done:
		return o.readLate(ctx, &inv.call)
	case <-word.C:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if inv.state == over {
		return (<-inv.done).readLate(ctx, &inv.call)
	}
	inv.alone = true // the rest of it is counted no more when Invoke has returned
	inv.call, inv.ctx = backend.Invocation{Tool: inv.call.Tool}, nil
	return tool.Reply{}, ended(ctx, tool.Ambiguous)
}

// wordWithin is how long a worker has for its last word. When the call's own time is over
// somebody waits for its result. Of a call without an effect nothing is to be learned, unless
// its time is over: that it got no place in the worker is no fault of its function.
func wordWithin(ctx context.Context, effect tool.Effect) time.Duration {
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	switch end, ok := ctx.Deadline(); {
	case effect == tool.ReadOnly && !late:
		return 0
	case effect == tool.ReadOnly:
		return shortWord
	case late && ok:
		return min(lastWord, max(time.Until(end), shortWord))
	default:
		return lastWord
	}
}
