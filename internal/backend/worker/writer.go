package worker

import (
	"context"
	"math"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/failpoint"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// write says what there is to say, in its order, and after the end what was said before.
func (s *session) write() {
	defer close(s.written)
	for last := false; !last; {
		select {
		case <-s.ended:
			last = true
		case <-s.toSay:
		}
		for command := s.next(); command != nil; command = s.next() {
			s.sends.Add(1)
			if command.GetInvoke() != nil {
				failpoint.Hit(failpoint.RequestLeaving)
			}
			err := s.stream.Send(command)
			s.sends.Add(1)
			if err != nil {
				s.stop(err)
				return
			}
		}
	}
}

// next is the next command to be sent; nil when there is none. From when it returns a
// call, that may run: nothing stands between it and the sending that can wait.
func (s *session) next() *sidecallv1.WorkerCommand {
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	for len(s.out) > 0 {
		o := s.out[0]
		s.out[0] = outgoing{}
		s.out = s.out[1:]
		inv := o.invoke
		select {
		case <-s.ended:
			if s.why != nil || inv != nil {
				continue // the status says it all; a call is handed on
			}
		default:
		}
		if inv == nil {
			return o.command
		}
		if withheld := inv.call.Withheld(); withheld != nil {
			inv.end(outcome{failure: withheld})
			s.backend.roster.release(inv)
			continue
		}
		inv.state = sent
		command := inv.command
		inv.command = nil
		if invoke := command.GetInvoke(); invoke.GetDeadline() != nil {
			invoke.Deadline = durationpb.New(left(inv.ctx))
		}
		if inv.call.Progress != nil {
			inv.call.Progress(backend.Sign{}) // the time in the line is not the function's
		}
		return command
	}
	return nil
}

// onTheWire is the call as it is sent, but for what is left of its time: that is what takes
// the most bytes of all that it can be by then.
func (inv *invocation) onTheWire() *sidecallv1.WorkerCommand {
	call := &inv.call
	invoke := &sidecallv1.WorkerInvoke{
		InvocationId: inv.id, Tool: call.Target, ArgumentsJson: string(call.Args),
		ToolUseId: text(call.ID), ConversationId: text(call.Conversation), TurnId: text(call.Turn),
		IdempotencyKey: call.IdempotencyKey, Attempt: int32(min(call.Attempt, math.MaxInt32)), Traceparent: carried(inv.ctx, propagation.TraceContext{}, "traceparent"), Baggage: carried(inv.ctx, propagation.Baggage{}, "baggage"),
	}
	if _, ok := inv.ctx.Deadline(); ok {
		invoke.Deadline = durationpb.New(left(inv.ctx).Truncate(time.Second) + time.Second - 1)
	}
	return &sidecallv1.WorkerCommand{Command: &sidecallv1.WorkerCommand_Invoke{Invoke: invoke}}
}

// left is what is left of the time of a context that ends.
func left(ctx context.Context) time.Duration {
	end, _ := ctx.Deadline()
	return max(time.Until(end), 0)
}

// text is a text of a caller as it can be sent: one string that is not UTF-8 would keep
// the whole message back.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// carried is what a propagator writes into a field. The contract names the form of it, and
// not OTEL_PROPAGATORS, which is about headers.
func carried(ctx context.Context, by propagation.TextMapPropagator, field string) string {
	carrier := propagation.MapCarrier{}
	by.Inject(ctx, carrier)
	return carrier[field]
}

func cancelled(id string) outgoing {
	return outgoing{command: &sidecallv1.WorkerCommand{Command: &sidecallv1.WorkerCommand_Cancel{Cancel: &sidecallv1.WorkerCancel{InvocationId: id}}}}
}

func goodbye() outgoing {
	return outgoing{command: &sidecallv1.WorkerCommand{Command: &sidecallv1.WorkerCommand_Goodbye{Goodbye: &sidecallv1.WorkerGoodbye{}}}}
}
