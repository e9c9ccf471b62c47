package call

import (
	"context"
	"errors"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/notify"
	"github.com/sidecall/sidecall/internal/rules"
	"github.com/sidecall/sidecall/internal/rules/loop"
	"github.com/sidecall/sidecall/internal/telemetry"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
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

// call is one request on its way through the pipeline. It belongs to one goroutine; each
// step makes what the next ones need, as a whole.
type call struct {
	Request

	start    time.Time
	snapshot *catalog.Snapshot
	lease    catalog.Lease  // of a call that is observed
	route    *catalog.Route // nil when there is no such tool
	of       rules.Call     // as its rules see it

	held held      // from resolve: the rules that it is held to
	stay stay      // from seat: what it takes up
	args arguments // from check: what it is called with
	run  execution // from claim: what came of it
	log  report    // what telemetry is told
}

// execution is a call that may be made.
type execution struct {
	claim  *dedupe.Claim // nil when it goes unrecorded
	before int64         // claims of it before this one
	tried  tries         // what came of its attempts so far
	// approval is who has allowed it; nil where nobody was asked.
	approval *sidecallv1.Resolution
	// hurried: its caller does not wait for its own deadline. begun is closed when the first
	// attempt is about to be made, and nil from then on.
	hurried bool
	begun   chan struct{}
}

// report is what telemetry is told of a call beside its result.
type report struct {
	trace telemetry.Call // span, metrics and log line
	rule  string         // by which it was refused, where its code does not tell; see ruleOf
	cause error          // for the log only
	stack string         // of a panic, for the log only
	// needs says what of the call a person is needed for; empty for nothing. claim names the
	// claim, or the hold, that it is about.
	needs notify.Kind
	claim string
}

func newCall(snapshot *catalog.Snapshot, req Request) *call {
	c := &call{Request: req, start: time.Now(), snapshot: snapshot}
	c.Load = req.Load.Share() // until it leaves
	c.route, _ = snapshot.Lookup(req.Tool)
	c.of = rules.Call{
		Key: req.Key, Prompt: req.Prompt, Tool: req.Tool, Arguments: req.Arguments, Route: c.route, Snapshot: snapshot,
		TokensUsed: req.TokensUsed, Refers: refers(req.Arguments),
	}
	var found bool
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
func (x *execution) mayHaveRun(effect tool.Effect) bool {
	return mustNotRepeat(effect) && (x.claim == nil || x.earlierMayHaveRun(effect))
}

// earlierMayHaveRun reports that an attempt, of this request or of one before
// it, may have had its effect without an answer. Only what may be repeated is
// sent again after such an attempt.
func (x *execution) earlierMayHaveRun(effect tool.Effect) bool {
	return x.tried.ambiguous && effect != tool.ReadOnly ||
		(effect == tool.Keyed || effect == tool.Idempotent) && x.before > 0
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
	return result.For{ID: c.Key.ID, Start: c.start, Attempts: c.run.tried.sent}
}

// subject is the call as the words about it see it: with the arguments that its model
// has seen.
func (c *call) subject() *explain.Subject {
	about := c.about()
	about.Args = c.args.written()
	return &explain.Subject{
		Route: c.route, Snapshot: c.snapshot, About: about,
		Sent: c.run.tried.sent, MayHaveRun: c.run.mayHaveRun(c.effect()), EarlierMayHaveRun: c.run.earlierMayHaveRun(c.effect()),
	}
}

// about is the call as a verification sees it.
func (c *call) about() interpret.Subject {
	return interpret.Subject{
		CallID: c.Key, IdempotencyKey: idempotencyKey(c.Key), Args: c.args.values,
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
	c.stay.leave()
	c.Load.Release()
}

// notStarted says why a call ended before it was sent.
func (c *call) notStarted(ctx context.Context) tool.Error {
	return c.subject().NotStarted(context.Cause(ctx), time.Since(c.start))
}
