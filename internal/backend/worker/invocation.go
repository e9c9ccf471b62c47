package worker

import (
	"container/list"
	"context"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// progress of an invocation. It only goes forward, but that one which is queued at a
// worker that is lost waits again.
type stage uint8

const (
	// waiting for a place.
	waiting stage = iota
	// queued has a place, and has not been sent.
	queued
	// sent was handed to the stream: from here on it may have run.
	sent
	// over: its outcome is known, or nobody asks for it any more.
	over
)

// invocation is one attempt on its way. All but id, and what Invoke itself reads of call and
// ctx, is guarded by the mutex of its backend.
type invocation struct {
	id   string
	call backend.Invocation
	ctx  context.Context //nolint:containedctx // the attempt's, for the deadline and the trace
	// command is what is sent; nil when it has been.
	command *sidecallv1.WorkerCommand

	state   stage
	line    *list.Element // while it waits
	session *session      // who has it, from queued on
	// alone: Invoke has returned, and the place is kept until the worker says what
	// became of it. Of the call it has the name of the tool alone.
	alone bool
	// unserved: nobody served the tool when it was last looked at.
	unserved bool
	done     chan outcome // has room for the one outcome
}

// outcome is how an invocation ended: with the word of the worker, or without.
type outcome struct {
	result  *sidecallv1.WorkerResult
	failure *tool.Failure
}

func (inv *invocation) end(o outcome) {
	inv.state = over
	inv.done <- o
}
