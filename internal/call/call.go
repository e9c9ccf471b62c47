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
	"github.com/sidecall/sidecall/internal/rules"
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

// call is one request on its way through the pipeline, as it is known from the start. It belongs
// to one goroutine. What a stage makes of it is a value of its own, complete when it is made:
// resolved, checked, admitted, and an ending.
type call struct {
	Request

	start    time.Time
	snapshot *catalog.Snapshot
	lease    catalog.Lease // of a call that is observed
	of       rules.Call    // as its rules see it
	now      rules.Now     // how far it has come, for its rules, for words and for telemetry
	rules    ruleset       // from resolve: the rules that it is held to
	stay     stay          // from seat: what it takes up
	caller   *impatient    // who may be answered before the call has ended; nil where it waits
	log      report        // what telemetry is told
}

// resolved is a call with its tool: one that its profile may call, where it is to be made; where
// it is only spoken of, perhaps one that is gone.
type resolved struct {
	*call

	route *catalog.Route
}

// admitted is a call that may be made.
type admitted struct {
	checked

	claim  *dedupe.Claim // nil when it goes unrecorded
	before int64         // claims of it before this one
	tried  tries         // what came of its attempts so far
	// approval is who has allowed it; nil where nobody was asked.
	approval *sidecallv1.Resolution
}

// report is what telemetry is told of a call beside its result.
type report struct {
	trace telemetry.Call // span, metrics and log line
	by    ruling         // why it was to be refused; see ruleOf
	notes []string       // what was changed in its arguments
	cause error          // for the log only
	stack string         // of a panic, for the log only
	open  *dedupe.Record // as it is left where a person is needed; else nil
}

// ruling is a rule that was to refuse a call, and the code with which it did.
type ruling struct {
	rule string
	code tool.Code
}

func newCall(snapshot *catalog.Snapshot, req Request) *call {
	c := &call{Request: req, start: time.Now(), snapshot: snapshot}
	c.Load = req.Load.Share() // until it leaves
	c.of = rules.Call{Use: req.Use, Prompt: req.Prompt, Snapshot: snapshot, TokensUsed: req.TokensUsed}
	c.of.Route, _ = snapshot.Lookup(req.Tool)
	c.now.Faultless = req.Impossible != nil
	if c.of.Route != nil {
		c.now.MayHaveRun = mustNotRepeat(c.of.Route.Tool.Effect)
	}
	var found bool
	if c.of.Profile, found = snapshot.Profiles.Find(req.Profile, req.Offered...); !found {
		// It is refused whatever it is, and a loop of such calls would have no end.
		c.of.UnknownProfile = true
		c.of.Profile, _ = snapshot.Profiles.Find("", req.Offered...)
	}
	return c
}

// observes reports that the call is only looked at.
func (c *call) observes() bool {
	return c.of.Profile.Observe != nil && !c.of.UnknownProfile && !c.ValidateOnly
}

// spokenOf is the call with its tool, or where that is gone with one of its name and an effect, to be
// spoken of.
func (c *call) spokenOf(effect tool.Effect) resolved {
	if c.of.Route != nil {
		return resolved{c, c.of.Route}
	}
	c.now.MayHaveRun = mustNotRepeat(effect)
	return resolved{c, &catalog.Route{Tool: tool.Tool{Name: tool.Shorten(c.Tool, maxToolName), Effect: effect}}}
}

// effect is shorthand for the effect of the call's tool.
func (r resolved) effect() tool.Effect { return r.route.Tool.Effect }

// mustNotRepeat reports effects that a model must not start anew under another
// id while it may have happened under the first. Of these it is worth asking
// the store, even for a call that cannot run now.
func mustNotRepeat(effect tool.Effect) bool {
	return effect == tool.NonIdempotent || effect == tool.Keyed
}

// update says anew how far the call has come.
//
// It may have had, under this id, an effect that a model must not repeat under another, in this
// request or in one before it: who holds the claim on a non_idempotent call knows that it has not,
// and the record of a keyed one does not tell. The id of one that is observed stands for nothing.
// An attempt before the last one, of this request or of one before it, may have had its effect
// without an answer; only what may be repeated is sent again after such an attempt.
func (c *admitted) update() {
	effect := c.effect()
	earlier := c.tried.ambiguous && effect != tool.ReadOnly ||
		(effect == tool.Keyed || effect == tool.Idempotent) && c.before > 0
	c.now.Attempts = rules.Attempts{
		Claimed: c.claim != nil, Sent: c.tried.sent, Failure: c.tried.reading.Failure, EarlierMayHaveRun: earlier,
		MayHaveRun: mustNotRepeat(effect) && (c.claim == nil && !c.observes() || earlier),
	}
}

// outputLimit is the most characters that content may have.
func (r resolved) outputLimit() int {
	limit := r.route.Tool.Policy.MaxOutputChars
	if asked := r.MaxOutputChars; asked > 0 && asked < limit {
		return asked
	}
	return limit
}

// result begins the answer of the call.
func (c *call) result() result.For {
	return result.For{ID: c.Key.ID, Start: c.start, Attempts: c.now.Sent}
}

// subject is the call as the words about it see it: with the arguments that its model
// has seen.
func (r resolved) subject() *explain.Subject {
	about := r.about()
	about.Args = r.now.Written
	return &explain.Subject{
		Route: r.route, Snapshot: r.snapshot, About: about,
		Sent: r.now.Sent, MayHaveRun: r.now.MayHaveRun, EarlierMayHaveRun: r.now.EarlierMayHaveRun,
	}
}

// about is the call as a verification sees it.
func (c *call) about() interpret.Subject {
	return interpret.Subject{CallID: c.Key, IdempotencyKey: idempotencyKey(c.Key), Args: c.now.Args}
}

// ending is how a call ended at the backend, before it is recorded.
type ending struct {
	answer *answer
	state  dedupe.State
	// harmless says that what ended it is a proof that it had no effect; attempts
	// before the last one may yet have had it.
	harmless bool
}

// leave gives back whatever the call still holds, once: its place in line, its seats,
// its room.
func (c *call) leave() {
	c.stay.leave()
	c.Load.Release()
	c.Load = nil
}

// notStarted says why a call ended before it was sent.
func (r resolved) notStarted(ctx context.Context) tool.Error {
	return r.subject().NotStarted(context.Cause(ctx), time.Since(r.start))
}
