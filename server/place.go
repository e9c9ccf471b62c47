package server

import (
	"context"
	"fmt"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/limit"
	"github.com/sidecall/sidecall/tool"
)

// places is the room that a call takes up. A call that may run has a place in
// the sidecar, at its backend and at its tool, all of them taken before the
// store is asked: whoever finds no room is refused for nothing but the look.
// A call that waits for the result of another one has only a place among
// those who wait, or the duplicates of one slow call would keep all others out.
type places struct {
	leaveSidecar, leaveBackend, leaveTool, leaveRoom, leaveWaiting func()
	// room hears how long the attempts of the call take.
	room limit.Pass
	// full says where there was no room, and why; empty when there was.
	full string
}

// enter takes the places of a call, or refuses it before anything else is done
// for it. A call that has no room and yet may be answered, since its id may be
// known, goes on without: see answerWithoutRoom.
func (e *Executor) enter(c *call) *response {
	// Asked first: a crowd of duplicates is to take one place, not all of them.
	if c.duplicate = e.Dedupe.AtWork(c.key()); c.duplicate {
		return nil
	}
	if c.places.take(e.Slots, c.route, c.req.GetValidateOnly()) {
		return nil
	}
	// Asked again, for it may have begun meanwhile.
	c.duplicate = e.Dedupe.AtWork(c.key())
	if c.duplicate || c.places.full != sidecarFull && mustNotRepeat(c.effect()) {
		return nil
	}
	return c.overloaded(explainOverloaded(c))
}

// overloaded answers a call that found no room.
func (c *call) overloaded(explained tool.Error) *response {
	return c.refused(explained, overloadRetryAfter)
}

// mustNotRepeat reports effects that a model must not start anew under another
// id while it may have happened under the first. Of these it is worth asking
// the store, even for a call that cannot run now.
func mustNotRepeat(effect tool.Effect) bool {
	return effect == tool.NonIdempotent || effect == tool.Keyed
}

// answerWithoutRoom decides a call that found no room at its backend: from the
// record, when there is one that decides it; else it is refused, in the
// certainty that nothing was done under its id. The look changes nothing in the
// store. go on means that somebody else is running the call, or that a
// verification may tell what became of it: both can be waited for without a
// place.
func (e *Executor) answerWithoutRoom(ctx context.Context, c *call, req dedupe.Request) (_ *response, goOn bool) {
	leave, ok := e.Looks.Acquire()
	if !ok {
		return c.overloaded(explainOverloaded(c)), false
	}
	defer leave()
	record, err := e.Dedupe.Lookup(ctx, req.Key)
	switch {
	case err != nil:
		c.cause = err
		return c.overloaded(explainOverloaded(c)), false
	case record.State == dedupe.Claimed, record.State == dedupe.Unknown && c.route.Verification != nil:
		return nil, true
	case record.State == dedupe.Done || record.State == dedupe.Unknown:
		// Time does not matter to these states.
		record, verdict, _ := record.Admit(req, record.FinishedAt)
		return e.answer(c, dedupe.Admission{Verdict: verdict, Record: record}), false
	default:
		return c.overloaded(explainNoRoom(c, record.State)), false
	}
}

// overloadRetryAfter is what a caller that finds no room is told to wait.
const overloadRetryAfter = time.Second

// What the model is told of a limit.
const (
	noMore      = " has as many calls in flight as it may have"
	sidecarFull = "this sidecar" + noMore
)

// take takes all the places, or none.
func (p *places) take(sidecar *limit.Bulkhead, route *Route, validateOnly bool) bool {
	p.full = ""
	var ok bool
	if p.leaveSidecar, ok = sidecar.Acquire(); !ok {
		p.full = sidecarFull
		return false
	}
	if validateOnly {
		return true
	}
	if p.leaveTool, ok = route.ToolSlots.Acquire(); !ok {
		p.full = "the tool " + route.Tool.Name + noMore
		p.leaveAll()
		return false
	}
	if p.leaveBackend, ok = route.Slots.Acquire(); !ok {
		p.full = "the backend " + route.Tool.Backend + noMore
		p.leaveAll()
		return false
	}
	if p.room, ok = route.Room.Enter(); !ok {
		p.full = fmt.Sprintf("the backend %s does not answer more calls of %s at the same time in time", route.Tool.Backend, route.Tool.Name)
		p.leaveAll()
		return false
	}
	p.leaveRoom = p.room.Leave
	return true
}

// isFull says which limit keeps the call out.
func (p *places) isFull() string { return p.full }

// complete reports whether the call may run; one that has given its places up
// takes them again if it can.
func (p *places) complete(sidecar *limit.Bulkhead, route *Route) bool {
	return p.leaveBackend != nil || p.take(sidecar, route, false)
}

// standAside exchanges the places of a call for one among those who wait. False
// when too many wait already; the call then keeps what it has.
func (p *places) standAside(waiting *limit.Bulkhead) bool {
	if p.leaveWaiting != nil {
		return true
	}
	leave, ok := waiting.Acquire()
	if !ok {
		return false
	}
	p.leaveAll()
	p.leaveWaiting = leave
	return true
}

// leaveTarget gives the places at backend and tool back: the call has its
// answer and only has to record it.
func (p *places) leaveTarget() {
	give(&p.leaveRoom)
	give(&p.leaveBackend)
	give(&p.leaveTool)
}

// leaveAll gives back whatever the call holds.
func (p *places) leaveAll() {
	p.leaveTarget()
	give(&p.leaveSidecar)
	give(&p.leaveWaiting)
}

func give(leave *func()) {
	if *leave != nil {
		(*leave)()
		*leave = nil
	}
}
