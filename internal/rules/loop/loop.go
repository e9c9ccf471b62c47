// Package loop has the rule that a prompt must not go round in circles: what package guard
// finds in the log of a prompt, and what becomes of it.
package loop

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/rules"
	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/tool"
)

// rule is the loop guard of one call.
type rule struct {
	rules.Idle

	call *rules.Call
	log  string
	// place is where the answer of the store has the log, and past the log without the call.
	place int
	past  guard.Log
	// seen is the call as the guard sees it; without an ID until somebody asks.
	seen guard.Call
	// beside is what the calls of its batch say of it.
	beside guard.Verdict
	// entry is what it leaves in the log; nil until that is known.
	entry *guard.Entry
	// finding is what the guard says of the call; of Pass when that is nothing.
	finding guard.Verdict
}

// New is the rules.Maker of the loop guard. What has no conversation has no log.
func New(c *rules.Call) rules.Rule {
	if c.Profile.Guard == nil || c.Key.Conversation == "" {
		return nil
	}
	return &rule{call: c, log: rules.LogOf("loop/", c.Prompt), beside: c.Batch.Beside}
}

// Check implements rules.Rule: it refuses a call that another one of its batch has made
// already, unless somebody has decided that it is to be made.
func (r *rule) Check(now *rules.Now) *rules.Refusal {
	if now.Allowed {
		r.beside = guard.Verdict{}
	}
	if !r.beside.Level.Refused() {
		return nil
	}
	r.finding = r.beside
	return r.refusal()
}

func (r *rule) refusal() *rules.Refusal {
	return &rules.Refusal{Error: explain.Loop(r.finding), Name: r.finding.Rule.String(), Loop: r.finding}
}

// Ask implements rules.Rule. A call that is refused before it is claimed leaves what is
// wrong with it, and not what there is no room for; a repetition in a batch is none of the
// log's.
func (r *rule) Ask(now *rules.Now, ask *rules.Ask) {
	r.place = ask.Log(r.log)
	if now.Answer == nil || r.finding.Level != guard.Pass {
		return
	}
	switch code := now.Answer.Code(); {
	case now.Answer.Earlier != nil:
		// Who orders a payment again and again, each time under a new id, goes round in
		// circles like any other, whatever the earlier one is called.
		r.enter(r.failure(now, guard.Failed, tool.Error{Code: code}))
	case code == tool.CodeInvalidArgs:
		r.enter(r.failure(now, guard.Invalid, *now.Answer.Error))
	case code == tool.CodeUnknownTool:
		r.enter(r.failure(now, guard.UnknownTool, *now.Answer.Error))
	case code.Class() == tool.Hard && endsOfItself(code):
		r.enter(r.failure(now, guard.Failed, *now.Answer.Error))
	}
	if r.entry != nil {
		ask.Append(r.append())
	}
}

// Hear implements rules.Rule: it judges the call by what was done before it. One that may
// have run under this id, and can only be repeated under it, is let through: it may be how
// somebody finds out. So is one that somebody has decided to make once more, or has allowed.
func (r *rule) Hear(now *rules.Now, heard *rules.Heard) *rules.Refusal {
	log := guard.Read(heard.Entries(r.place))
	switch {
	case now.Claimed:
		r.past = log
		this := r.this(now)
		verdict := r.call.Profile.Guard.Before(log, this)
		if !verdict.Level.Refused() || now.Allowed || heard.Approved || now.EarlierMayHaveRun && !log.Refused(this.ID) {
			return nil
		}
		r.finding = verdict
		r.enter(this.Refuse(verdict, guard.At(now.At)))
	case r.entry == nil:
		return nil
	default:
		if r.finding = r.call.Profile.Guard.TurnedAway(log); !r.finding.Level.Refused() {
			return nil
		}
	}
	return r.refusal()
}

// End implements rules.Rule: it takes down how a call has ended that was made, and says
// what it repeats.
func (r *rule) End(now *rules.Now) {
	a := now.Answer
	switch code := a.Code(); {
	case a.Again != nil:
		return
	case r.entry != nil || !now.Claimed:
	case a.Error == nil:
		r.judge(guard.Entry{
			Call: r.this(now), Kind: guard.OK, Outcome: outcomeOf(&a.Reading.Reply), Empty: a.Reading.Outcome == interpret.Empty,
			End: guard.At(now.At),
		})
	// That an upstream is away is the business of a breaker, and over when it is back.
	// What may have happened is not.
	case endsOfItself(code) && (code.Class() != tool.Transient || now.MayHaveRun):
		r.judge(r.failure(now, guard.Failed, *a.Error))
	}
	if a.Loop = r.finding; r.finding.Level != guard.Nudge {
		return
	}
	if a.Error == nil {
		a.Nudge = explain.Nudge(r.finding)
	} else {
		a.Hints = append(a.Hints, explain.Nudge(r.finding))
	}
}

// Leave implements rules.Rule.
func (r *rule) Leave(now *rules.Now, _ *result.Response, leaves *rules.Leaves) {
	if now.Claimed && r.entry != nil {
		leaves.Append(r.append())
	}
}

// usualEntry is room for most entries, in bytes.
const usualEntry = 96

func (r *rule) append() dedupe.Append {
	return dedupe.Append{Log: r.log, Entry: r.entry.AppendTo(make([]byte, 0, usualEntry)), Keep: guard.LogEntries}
}

func (r *rule) enter(e guard.Entry) { r.entry = &e }

// judge enters what came of the call, and finds out whether it repeats anything.
func (r *rule) judge(e guard.Entry) {
	r.enter(e)
	r.finding = r.call.Profile.Guard.After(r.past, e)
	if r.beside.Level > r.finding.Level {
		r.finding = r.beside
	}
}

// failure is the entry of a call that failed.
func (r *rule) failure(now *rules.Now, kind guard.Kind, e tool.Error) guard.Entry {
	return guard.Entry{Call: r.this(now), Kind: kind, End: guard.At(now.At), Outcome: guard.Failure(e, now.Args)}
}

// this is the call as the guard sees it, once and for all.
func (r *rule) this(now *rules.Now) guard.Call {
	if r.seen.ID == 0 {
		r.seen = unread(r.call, now.Args)
		if now.Checked {
			r.seen.Same = guard.Cut(now.Print)
		} else {
			r.seen.Same = guard.Sum([]byte(r.call.Tool + "\x00" + r.call.Arguments))
		}
	}
	return r.seen
}

// unread is a call as the guard sees it, but for what makes it the same as another.
func unread(c *rules.Call, args map[string]any) guard.Call {
	seen := guard.Call{
		Tool: c.Tool, ID: guard.Sum([]byte(c.Key.Turn + "\x00" + c.Key.ID)), Batch: c.Batch.Message, Start: guard.At(c.Start),
	}
	if c.Message != "" {
		seen.Batch = guard.Sum([]byte("message\x00" + c.Message))
	}
	if c.Route != nil {
		seen.Effect, seen.Polling = c.Route.Tool.Effect, c.Route.Tool.Policy.Polling
	}
	if seen.Effect == tool.ReadOnly {
		seen.Words = guard.WordsOf(args)
	}
	return seen
}

// endsOfItself reports errors that a model can go round in circles about. The others
// are of who called, of the sidecar, and of who is asked.
func endsOfItself(code tool.Code) bool {
	return code != tool.CodeCancelled && code != tool.CodeInternal && code != tool.CodeIDReused && code != tool.CodeInProgress &&
		code != tool.CodeApprovalRequired
}

// outcomeOf is the hash of all that a tool has answered, before any of it is cut.
func outcomeOf(reply *tool.Reply) guard.Hash {
	if len(reply.Structured)+len(reply.Blocks) == 0 && reply.Binary == "" {
		return guard.Sum(reply.Text)
	}
	sum := sha256.New()
	part := func(b []byte) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(b)))
		sum.Write(size[:])
		sum.Write(b)
	}
	part(reply.Text)
	part(reply.Structured)
	part([]byte(reply.Binary))
	for i := range reply.Blocks {
		b := &reply.Blocks[i]
		part([]byte(b.Type))
		part([]byte(b.MIMEType))
		part(b.Data)
		part([]byte(b.Text))
		part([]byte(b.URI))
	}
	if reply.Binary != "" { // its content was not read: two of a size are not known to be the same
		part([]byte(rand.Text()))
	}
	return guard.Cut([sha256.Size]byte(sum.Sum(nil)))
}
