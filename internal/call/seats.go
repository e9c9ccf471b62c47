package call

import (
	"fmt"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/limit"
)

// seating is where a call is between its arrival and its end:
//
//	                    ┌────────────── won ◀─────────────┐
//	                    ▼                                 │
//	standing ─leads─▶ seated ─in flight elsewhere──▶ waiting
//	   │  │             │                                 ▲
//	   │  │             └─has its answer─▶ recording      │
//	   │  └─no room─▶ refused ─its id is in flight────────┤
//	   └──follows─────────────────────────────────────────┘
//
// A call that may run has a seat in the sidecar, at its tool, at its backend and
// in the tool's room, all of them taken before the store is asked: whoever finds
// none is refused for nothing but the look. A call that waits for the result of
// another one has only a seat among those who wait, or the duplicates of one slow
// call would keep all others out.
type seating uint8

const (
	standing seating = iota
	refused
	seated
	waiting
	recording
)

// stay is what a call takes up until it leaves.
type stay struct {
	ticket *dedupe.Ticket // its place in line; nil when it needs none
	seats  seats
	load   limit.Load // what its replies hold
}

// leave gives back whatever the call still holds.
func (s *stay) leave() {
	if s.ticket != nil {
		s.ticket.Leave()
	}
	s.seats.leave()
	s.load.Release()
}

// seats are where a call takes part.
type seats struct {
	state seating
	// full says which limit keeps it out; set when refused.
	full string
	// pass hears how long the attempts of the call take; entered says that it is held.
	pass    limit.Pass
	entered bool

	sidecar, tool, backend, waiting limit.Place
}

// What the model is told of a limit.
const (
	noMore      = " has as many calls in flight as it may have"
	sidecarFull = "this sidecar" + noMore
	bytesFull   = "this sidecar holds as many bytes of arguments and replies as it may (limits.max_held_bytes)"
	looksFull   = "this sidecar looks up the ids of as many refused calls as it may"
)

// seat takes the seats of a call; false when there is no room. A duplicate of a
// call in flight here needs none.
func (e *Executor) seat(c resolved) bool {
	if c.ValidateOnly {
		return c.hasMemory() && c.stay.seats.takeSidecar(e.Slots)
	}
	c.stay.ticket = e.Dedupe.Join(c.Key)
	if c.HoldOnly {
		return !c.stay.ticket.Leads() || c.hasMemory() && c.stay.seats.takeSidecar(e.Slots)
	}
	return !c.stay.ticket.Leads() || c.hasMemory() && c.stay.seats.take(e.Slots, c.route)
}

// hasMemory reports that there is memory for a call, beside what it holds already.
func (c *call) hasMemory() bool {
	if !c.Bytes.Full(c.Load.Held()) {
		return true
	}
	c.stay.seats.state, c.stay.seats.full = refused, bytesFull
	return false
}

// atCapacity refuses a call that has found no room. Of a call that only asks whether
// its arguments are right nothing is recorded.
func (c resolved) atCapacity(recorded dedupe.State) *answer {
	if c.ValidateOnly {
		return c.overloaded()
	}
	return c.result().Refused(c.subject().AtCapacity(c.stay.seats.full, recorded), explain.WhenOverloaded)
}

// overloaded refuses a call of whose record nothing is known.
func (c resolved) overloaded() *answer {
	return c.result().Refused(c.subject().Overloaded(c.stay.seats.full), explain.WhenOverloaded)
}

// take takes all the seats, or none.
func (s *seats) take(sidecar *limit.Bulkhead, route *catalog.Route) bool {
	if !s.takeSidecar(sidecar) || !s.takeTarget(route) {
		s.give()
		s.state = refused
		return false
	}
	s.waiting.Leave()
	s.state = seated
	return true
}

func (s *seats) takeSidecar(sidecar *limit.Bulkhead) (ok bool) {
	if ok = sidecar.Acquire(&s.sidecar); !ok {
		s.state, s.full = refused, sidecarFull
	}
	return ok
}

// takeTarget takes the seats where the tool lives.
func (s *seats) takeTarget(route *catalog.Route) bool {
	if !route.ToolSlots.Acquire(&s.tool) {
		s.full = "the tool " + route.Tool.Name + noMore
		return false
	}
	if !route.Slots.Acquire(&s.backend) {
		s.full = "the backend " + route.Tool.Backend + noMore
		return false
	}
	if s.pass, s.entered = route.Capacity.Enter(); !s.entered {
		s.full = fmt.Sprintf("the backend %s does not answer more calls of %s at the same time in time", route.Tool.Backend, route.Tool.Name)
		return false
	}
	return true
}

// complete reports whether the call may run; one that has waited takes its seats
// again if it can.
func (s *seats) complete(sidecar *limit.Bulkhead, route *catalog.Route) bool {
	return s.state == seated || s.take(sidecar, route)
}

// wait exchanges the seats of a call for one among those who wait. False when too
// many wait already; the call then keeps what it has.
func (s *seats) wait(among *limit.Bulkhead) bool {
	if s.state == waiting {
		return true
	}
	if !among.Acquire(&s.waiting) {
		return false
	}
	s.giveTarget()
	s.sidecar.Leave()
	s.state = waiting
	return true
}

// leaveTarget gives the seats at backend and tool back: the call has its answer
// and only has to record it.
func (s *seats) leaveTarget() {
	s.state = recording
	s.giveTarget()
}

// leave gives back whatever the call holds.
func (s *seats) leave() {
	s.state = standing
	s.give()
}

func (s *seats) give() {
	s.giveTarget()
	s.sidecar.Leave()
	s.waiting.Leave()
}

func (s *seats) giveTarget() {
	if s.entered {
		s.entered = false
		s.pass.Leave()
	}
	s.backend.Leave()
	s.tool.Leave()
}
