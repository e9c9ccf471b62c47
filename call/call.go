package call

import (
	"context"
	"errors"
	"time"

	"github.com/sidecall/sidecall/call/explain"
	"github.com/sidecall/sidecall/call/result"
	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/rules"
	"github.com/sidecall/sidecall/internal/rules/loop"
	"github.com/sidecall/sidecall/interpret"
	"github.com/sidecall/sidecall/limit"
	"github.com/sidecall/sidecall/telemetry"
	"github.com/sidecall/sidecall/tool"
)

type (
	response = result.Response
	answer   = result.Answer
)

// maxToolName is how much of a name that no tool has is looked at and written
// down, in characters: a model may make up any.
const maxToolName = 128

// Why the time of a call is over: the tool's own deadline has passed, or that of a caller
// who would not wait as long.
var (
	errCallDeadline    = errors.New("the deadline of the call has passed")
	errCallersDeadline = errors.New("the deadline of the caller has passed")
)

// call is one request on its way through the pipeline. It belongs to one
// goroutine; each step fills in what the next ones need.
type call struct {
	Request

	// hurried: the caller does not wait for the call's own deadline. begun is
	// closed when the first attempt is about to be made, and nil from then on.
	hurried bool
	begun   chan struct{}
	caller  context.Context //nolint:containedctx // from run: ends when the caller leaves, and is not what the attempts are made in

	start    time.Time
	snapshot *catalog.Snapshot
	route    *catalog.Route // nil when there is no such tool
	of       rules.Call     // as its rules see it
	held     held           // from resolve: those rules
	rule     string         // by which it was refused, where its code does not tell; see refusedBy

	ticket *dedupe.Ticket // its place in line, from seat; nil when it needs none
	seats  seats          // from seat

	refs      *references      // from dereference: what its arguments refer to; nil for nothing
	args      map[string]any   // from validate: checked, numbers as json.Number
	canonical []byte           // from validate: args in canonical form (RFC 8785)
	print     [32]byte         // from validate: the fingerprint of the tool with them
	notes     []string         // from validate: what was changed in the arguments
	effectKey dedupe.EffectKey // from validate: what it does, apart from its id

	load  limit.Load    // what its replies hold
	claim *dedupe.Claim // from claim; nil when the call runs unrecorded
	tried tries         // from run: what came of its attempts so far

	trace telemetry.Call // span, metrics and log line
	cause error          // for the log only
	stack string         // of a panic, for the log only
}

func newCall(snapshot *catalog.Snapshot, req Request) *call {
	c := &call{Request: req, start: time.Now(), snapshot: snapshot}
	c.Load = req.Load.Share() // until it leaves
	c.route, _ = snapshot.Lookup(req.Tool)
	c.of = rules.Call{
		Key: req.Key, Prompt: req.Prompt, Tool: req.Tool, Arguments: req.Arguments, Route: c.route, Snapshot: snapshot,
		TokensUsed: req.TokensUsed, Refers: refers(req.Arguments),
	}
	found := false
	if c.of.Profile, found = snapshot.Profiles.Find(req.Profile, req.Offered...); !found {
		// It is refused whatever it is, and a loop of such calls would have no end.
		c.of.Stranger = true
		c.of.Profile, _ = snapshot.Profiles.Find("", req.Offered...)
	}
	if req.Message != "" && c.of.Profile.Guard != nil {
		c.of.Batch.Message = loop.Message(req.Message)
	}
	return c
}

// effect is shorthand for the effect of the call's tool.
func (c *call) effect() tool.Effect { return c.route.Tool.Effect }

// mustNotRepeat reports effects that a model must not start anew under another
// id while it may have happened under the first. Of these it is worth asking
// the store, even for a call that cannot run now.
func mustNotRepeat(effect tool.Effect) bool {
	return effect == tool.NonIdempotent || effect == tool.Keyed
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
	return c.tried.ambiguous && effect != tool.ReadOnly ||
		(effect == tool.Keyed || effect == tool.Idempotent) && c.claim != nil && c.claim.Epoch() > 1
}

// outputLimit is the most characters that content may have.
func (c *call) outputLimit() int {
	limit := c.route.Tool.Policy.MaxOutputChars
	if asked := c.MaxOutputChars; asked > 0 && asked < limit {
		return asked
	}
	return limit
}

// result begins the answer of the call.
func (c *call) result() result.For {
	return result.For{ID: c.Key.ID, Start: c.start, Attempts: c.tried.sent}
}

// subject is the call as the words about it see it: with the arguments that its model
// has seen.
func (c *call) subject() *explain.Subject {
	about := c.about()
	about.Args = c.written()
	return &explain.Subject{
		Route: c.route, Snapshot: c.snapshot, About: about,
		Sent: c.tried.sent, MayHaveRun: c.mayHaveRun(), EarlierMayHaveRun: c.earlierMayHaveRun(),
	}
}

// about is the call as a verification sees it.
func (c *call) about() interpret.Subject {
	return interpret.Subject{
		ID: c.Key.ID, Conversation: c.Key.Conversation, Turn: c.Key.Turn,
		IdempotencyKey: idempotencyKey(c.Key), Args: c.args,
	}
}

// ending is how a call ended at the backend, before it is recorded.
type ending struct {
	answer *answer
	state  dedupe.State
	// harmless says that what ended it is a proof that it had no effect; attempts
	// before the last one may yet have had it.
	harmless bool
}

// leave gives back whatever the call still holds: its place in line, its seats,
// its room.
func (c *call) leave() {
	if c.ticket != nil {
		c.ticket.Leave()
	}
	c.seats.leave()
	c.load.Release()
	c.Load.Release()
}

// notStarted says why a call ended before it was sent.
func (c *call) notStarted(ctx context.Context) tool.Error {
	return c.subject().NotStarted(context.Cause(ctx), time.Since(c.start))
}
