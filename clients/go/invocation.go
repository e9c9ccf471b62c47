package sidecall

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Invocation is the call that a function serves.
type Invocation struct {
	// ToolName is the function's own name.
	ToolName string
	// ToolUseID is the call's own id, ConversationID and TurnID are where it belongs.
	ToolUseID, ConversationID, TurnID string
	// Key is the idempotency key: the same for every attempt of a call, different for
	// every call.
	Key string
	// Attempt counts from 1.
	Attempt int
	// Traceparent is the span of the attempt as W3C Trace Context has it, and Baggage the
	// W3C Baggage of the call; each may be empty.
	Traceparent, Baggage string
}

// current is the invocation that a context belongs to.
type current struct {
	Invocation

	// progress tells the sidecar that it goes on.
	progress func(note string)
}

type currentKey struct{}

// InvocationOf returns the call that a function serves, by the context that it was
// given; false of another context. The deadline of that context is the call's.
func InvocationOf(ctx context.Context) (Invocation, bool) {
	c, ok := ctx.Value(currentKey{}).(*current)
	if !ok {
		return Invocation{}, false
	}
	return c.Invocation, true
}

// Progress says that the call of a context goes on: the time of its attempt begins
// anew. Of another context it says nothing.
func Progress(ctx context.Context, note string) {
	if c, ok := ctx.Value(currentKey{}).(*current); ok {
		c.progress(note)
	}
}

// Reply is a result that says more than text.
type Reply struct {
	// Content is the text for the model.
	Content string
	// Structured is encoded as JSON; nil for none.
	Structured any
	// Blocks are images and the like.
	Blocks []*sidecallv1.ContentBlock
}

// Failure is an error that says more than its text.
type Failure struct {
	// Message for the model.
	Message string
	// Code is one of those in WorkerResult.code; empty means UNRECOVERABLE.
	Code string
	// NotRun: nothing was done, so the call may be made again.
	NotRun bool
	// RetryAfter is how long to wait before it is; 0 says nothing.
	RetryAfter time.Duration
}

// Error implements error.
func (f *Failure) Error() string { return f.Message }

// resultOf is what a function returned, on the wire. What JSON cannot hold is no failure of the
// function, which might say that nothing was done: what stands for it is no JSON, and the sidecar
// knows what that means.
func resultOf(out any) *sidecallv1.WorkerResult {
	reply, ok := out.(Reply)
	switch value := out.(type) {
	case Reply:
	case string:
		return &sidecallv1.WorkerResult{Content: value}
	default:
		reply.Structured = value
	}
	result := &sidecallv1.WorkerResult{Content: reply.Content, Blocks: reply.Blocks}
	if reply.Structured != nil || !ok {
		structured, err := json.Marshal(reply.Structured)
		if err != nil {
			return &sidecallv1.WorkerResult{Content: "the function ran, but its result is not JSON: " + err.Error(), StructuredContentJson: "-"}
		}
		result.StructuredContentJson = string(structured)
	}
	return result
}

// failureOf is an error of a function, on the wire.
func failureOf(err error) *sidecallv1.WorkerResult {
	result := &sidecallv1.WorkerResult{Content: err.Error(), IsError: true}
	if f, ok := errors.AsType[*Failure](err); ok {
		result.Code, result.NotRun = f.Code, f.NotRun
		if f.RetryAfter > 0 {
			result.RetryAfter = durationpb.New(f.RetryAfter)
		}
	}
	return result
}
