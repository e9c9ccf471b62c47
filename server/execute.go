package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/failpoint"
	"github.com/sidecall/sidecall/limit"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/schema"
	"github.com/sidecall/sidecall/telemetry"
	"github.com/sidecall/sidecall/tool"
)

// maxToolName is how much of a name that no tool has is looked at and written
// down, in characters: a model may make up any.
const maxToolName = 128

var (
	errCallDeadline = errors.New("the deadline of the call has passed")
	errAttemptLimit = errors.New("the timeout of the attempt has passed")
)

// Executor runs calls: one result for every call, never twice.
type Executor struct {
	Registry *Registry
	Profiles Profiles
	Dedupe   *dedupe.Dedupe
	Recorder *telemetry.Recorder
	// Slots bounds the calls in flight in this sidecar, Waiting the duplicates
	// beside them that wait for the result of a call in flight, Looks the
	// questions to the store on behalf of calls that find no room.
	Slots, Waiting, Looks *limit.Bulkhead
	// Options are the limits that hold for every tool.
	Options Options

	verifications verifications
}

// Options are the limits that hold for every tool.
type Options struct {
	// KeepOutputBytes is how much of an output is read and kept at the most.
	KeepOutputBytes int64
	// OutputTTL is how long a kept output can be read.
	OutputTTL time.Duration
	// BatchParallel is how many calls of one batch run at the same time.
	BatchParallel int
	// RefuseUnrecorded refuses read_only tools too while the store is down.
	// Tools with an effect are always refused then.
	RefuseUnrecorded bool
}

// Execute runs one call and returns its one result. It always returns a
// result, never an error: what goes wrong is data for the model.
func (e *Executor) Execute(ctx context.Context, tenant string, req *sidecallv1.ExecuteToolRequest) (res *sidecallv1.ExecuteToolResponse) {
	c := &call{req: req, tenant: tenant, start: time.Now(), registry: e.Registry}
	defer func() {
		// Outside of protected is what counts and logs calls. A bug there must
		// not take a result with it, nor the process: a call of a batch has no
		// other net.
		if p := recover(); p != nil {
			e.Recorder.Panicked(p, debug.Stack())
			if res == nil {
				c.cause = fmt.Errorf("panic: %v", p)
				res = c.afterPanic().response
			}
		}
	}()
	route, registered := e.Registry.Lookup(req.GetToolName())
	c.route = route
	ctx, c.record = e.Recorder.StartCall(ctx, telemetry.CallInfo{
		Tool:         shorten(req.GetToolName(), maxToolName),
		Registered:   registered,
		ID:           req.GetToolUseId(),
		Conversation: req.GetConversationId(),
		Turn:         req.GetTurnId(),
		Prompt:       req.GetPromptId(),
		Labels:       req.GetLabels(),
	}, c.start)
	res = e.protected(ctx, c)
	c.record.End(ctx, c.ending(res))
	return res
}

// protected makes a result of a bug: a panic anywhere below ends here.
func (e *Executor) protected(ctx context.Context, c *call) (res *sidecallv1.ExecuteToolResponse) {
	defer func() {
		if p := recover(); p != nil {
			c.cause, c.stack = fmt.Errorf("panic: %v", p), string(debug.Stack())
			res = c.afterPanic().response
		}
	}()
	return e.execute(ctx, c)
}

// execute is the pipeline. Each step either lets the call go on or returns the
// result that ends it.
func (e *Executor) execute(ctx context.Context, c *call) *sidecallv1.ExecuteToolResponse {
	if refusal := e.resolve(c); refusal != nil {
		return refusal
	}
	if refusal := e.enter(c); refusal != nil {
		return refusal
	}
	defer c.places.leaveAll()
	if refusal := e.validate(c); refusal != nil {
		return refusal
	}
	ctx, cancel := c.withDeadline(ctx)
	defer cancel()
	if answer := e.admit(ctx, c); answer != nil {
		return answer
	}
	return e.runAndSettle(ctx, c)
}

// resolve finds the tool and checks that the profile may call it.
func (e *Executor) resolve(c *call) *sidecallv1.ExecuteToolResponse {
	profile, refusal := e.Profiles.find(c.req.GetProfile())
	if refusal != nil {
		return c.refused(*refusal, 0)
	}
	if c.route == nil {
		return c.refused(schema.UnknownTool(shorten(c.req.GetToolName(), maxToolName), e.allowed(profile)), 0)
	}
	if !profile.Allows(c.route.Tool.Name) {
		return c.failed(explainForbidden(c, profile), tool.Failure{
			Code:                tool.CodePermissionDenied,
			AllowedAlternatives: schema.Nearest(c.route.Tool.Name, e.allowed(profile), 3),
		})
	}
	return nil
}

// allowed returns the names of the tools that a profile may call, sorted.
func (e *Executor) allowed(profile Profile) []string {
	names := make([]string, 0, len(e.Registry.Names()))
	for _, name := range e.Registry.Names() {
		if profile.Allows(name) {
			names = append(names, name)
		}
	}
	return names
}

// validate checks the arguments. A call that fails here has touched neither
// the store nor the backend.
func (e *Executor) validate(c *call) *sidecallv1.ExecuteToolResponse {
	args, violations := c.parse()
	if len(violations) > 0 {
		return c.invalid(violations)
	}
	c.args = args
	if c.req.GetValidateOnly() {
		return c.valid()
	}
	canonical, err := schema.Canonical(args)
	if err != nil {
		return c.invalid([]tool.Error{{
			Code: tool.CodeInvalidArgs, Constraint: err.Error(), Received: quote(c.req.GetArgumentsJson()),
			Hint: fmt.Sprintf("Correct the arguments, then call %s again.", c.route.Tool.Name),
		}})
	}
	c.canonical = canonical
	return nil
}

// admit asks for the right to run the call: the one store round trip before
// the effect. A duplicate gets the first one's result, here or after waiting.
func (e *Executor) admit(ctx context.Context, c *call) *sidecallv1.ExecuteToolResponse {
	req := dedupe.Request{
		Key:         c.key(),
		Tool:        c.route.Tool.Name,
		Effect:      c.effect(),
		Fingerprint: schema.Fingerprint(c.route.Tool.Name, c.canonical),
	}
	if c.places.full != "" && !c.duplicate {
		if answer, goOn := e.answerWithoutRoom(ctx, c, req); !goOn {
			return answer
		}
	}
	ticket := e.Dedupe.Join(c.key())
	defer ticket.Leave()
	admission, claim, err := e.askAndWait(ctx, c, ticket, req)
	if admission.Verdict == dedupe.OutcomeUnknown && e.reconsider(ctx, c, admission) {
		admission, claim, err = e.askAndWait(ctx, c, ticket, req)
	}
	if err != nil {
		return e.withoutStore(ctx, c, err)
	}
	if admission.Verdict == dedupe.Won {
		c.claim = claim
		return nil
	}
	return e.answer(c, admission)
}

func (e *Executor) askAndWait(ctx context.Context, c *call, ticket *dedupe.Ticket, req dedupe.Request) (dedupe.Admission, *dedupe.Claim, error) {
	admission, claim, err := ticket.Admit(ctx, req)
	if err == nil && admission.Verdict == dedupe.InFlight && c.places.standAside(e.Waiting) {
		return ticket.Wait(ctx)
	}
	return admission, claim, err
}

// answer is the result of a call that is not to run.
func (e *Executor) answer(c *call, admission dedupe.Admission) *sidecallv1.ExecuteToolResponse {
	switch admission.Verdict {
	case dedupe.Replay:
		return notRecorded(c.replay(admission.Record), admission)
	case dedupe.OutcomeUnknown:
		return c.sayWhenToAsk(notRecorded(c.unknownAgain(admission.Record), admission))
	case dedupe.Mismatch:
		return c.refused(explainReused(c, admission.Record), 0)
	default:
		return c.inProgress()
	}
}

// withoutStore decides a call that could not be admitted. Nothing has been
// sent. Only a tool without any effect may go on unrecorded.
func (e *Executor) withoutStore(ctx context.Context, c *call, err error) *sidecallv1.ExecuteToolResponse {
	c.cause = err
	switch {
	case ctx.Err() != nil:
		return c.failed(explainNotStarted(ctx, c))
	case c.effect() == tool.ReadOnly && !e.Options.RefuseUnrecorded:
		return nil
	default:
		return c.refused(explainStoreDown(c), storeRetryAfter)
	}
}

// runAndSettle holds the claim, if there is one, from here to its settlement.
func (e *Executor) runAndSettle(ctx context.Context, c *call) (res *sidecallv1.ExecuteToolResponse) {
	defer func() {
		if p := recover(); p != nil {
			c.cause, c.stack = fmt.Errorf("panic: %v", p), string(debug.Stack())
			res = e.settle(ctx, c, c.afterPanic())
		}
	}()
	failpoint.Hit(failpoint.ClaimWon)
	return e.settle(ctx, c, e.verified(ctx, c, e.run(ctx, c)))
}
