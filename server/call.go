package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/interpret"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/telemetry"
	"github.com/sidecall/sidecall/tool"
)

// call is one request on its way through the pipeline. It belongs to one
// goroutine; each step fills in what the next ones need.
type call struct {
	req    *sidecallv1.ExecuteToolRequest
	tenant string
	start  time.Time
	// registry knows the tool that can verify this one.
	registry *Registry
	// record is the span, metrics and log line of the call.
	record telemetry.Call

	route  *Route // from resolve
	places places // from enter
	// duplicate says that a call with this key is being run here, from enter.
	duplicate bool

	args      map[string]any // from validate: checked, numbers as json.Number
	canonical []byte         // from validate: args in canonical form (RFC 8785)
	notes     []string       // from validate: what was changed in the arguments

	claim *dedupe.Claim // from admit; nil when the call runs unrecorded

	// sent counts the invocations of the backend. 0 is the proof that nothing
	// can have happened.
	sent int
	// ambiguous says that an attempt may have had its effect without an answer.
	ambiguous bool
	reading   interpret.Reading // of the last attempt
	// mapped says that a rule of the tool made the failure of the last attempt.
	mapped bool
	// operator is who had the call verified; empty for the sidecar itself.
	operator string
	// tooEarly is for how much longer a verification that did not find the
	// call's effect proves nothing; 0 when there is no such thing to say.
	tooEarly time.Duration
	cause    error  // for the log only
	stack    string // of a panic, for the log only
}

// mayHaveRun reports that the call may have had, under this id, an effect that a
// model must not repeat under another: in this request or in one before it.
// Who holds the claim on a non_idempotent call knows that it has not; the record
// of a keyed one does not tell.
func (c *call) mayHaveRun() bool {
	return mustNotRepeat(c.effect()) && (c.claim == nil || c.earlierMayHaveRun())
}

// earlierMayHaveRun reports that an attempt, of this request or of one before
// it, may have had its effect without an answer. Only what may be repeated is
// sent again after such an attempt.
func (c *call) earlierMayHaveRun() bool {
	effect := c.effect()
	return c.ambiguous && effect != tool.ReadOnly ||
		(effect == tool.Keyed || effect == tool.Idempotent) && c.claim != nil && c.claim.Epoch() > 1
}

// key is the identity of the call.
func (c *call) key() dedupe.Key {
	return dedupe.Key{
		Tenant:       c.tenant,
		Conversation: c.req.GetConversationId(),
		Turn:         c.req.GetTurnId(),
		ID:           c.req.GetToolUseId(),
	}
}

// idempotencyKey derives the key that is forwarded to the upstream from the
// identity of the call, so that every attempt, in whatever process and after
// whatever crash, carries the same one.
func (c *call) idempotencyKey() string {
	hash := sha256.New()
	for _, part := range [...]string{c.tenant, c.req.GetConversationId(), c.req.GetTurnId(), c.req.GetToolUseId()} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		hash.Write(size[:])
		hash.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(hash.Sum(nil))
}

// answerMargin is kept back from the caller's deadline, so that the result of
// a call that used all its time still reaches the caller.
const answerMargin = 50 * time.Millisecond

// withDeadline bounds ctx by the tool's deadline, the request's timeout and the
// caller's own deadline less a margin for the answer.
func (c *call) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := c.route.Tool.Policy.Deadline
	if t := c.req.GetTimeout(); t != nil && t.AsDuration() > 0 && t.AsDuration() < limit {
		limit = t.AsDuration()
	}
	deadline := c.start.Add(limit)
	if callers, ok := ctx.Deadline(); ok {
		margin := min(answerMargin, time.Until(callers)/10)
		if callers = callers.Add(-margin); callers.Before(deadline) {
			deadline = callers
		}
	}
	return context.WithDeadlineCause(ctx, deadline, errCallDeadline)
}

// outputLimit is the most characters that content may have.
func (c *call) outputLimit() int {
	limit := c.route.Tool.Policy.MaxOutputChars
	if asked := int(c.req.GetMaxOutputChars()); asked > 0 && asked < limit {
		return asked
	}
	return limit
}

// effect is shorthand for the effect of the call's tool.
func (c *call) effect() tool.Effect { return c.route.Tool.Effect }
