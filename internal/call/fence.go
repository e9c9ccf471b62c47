package call

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/tool"
)

// maxClosingChars bounds what a closed call keeps of an answer in a program's own words.
const maxClosingChars = 1_000

// Fence decides the calls of a conversation that an append to it answers. What has not
// run is closed, so that it never does; what is running is waited for; and of the rest
// nothing is said that its record denies. What a program says in its own words is its
// own: only the words of a sidecar are compared. The error of the fence may be a Fault.
func (e Records) Fence(tenant, conversationID string) conversation.Fence {
	return func(ctx context.Context, answers []conversation.Answer) ([]dedupe.Closing, error) {
		lease := e.Catalog.Lease()
		defer lease.Release()
		f := fence{e, lease.Snapshot}
		var closings []dedupe.Closing
		for _, answer := range answers {
			key := tool.CallID{Tenant: tenant, Conversation: conversationID, Turn: answer.Turn, ID: answer.ID}
			closing, err := f.decide(ctx, key, answer)
			if err != nil {
				return nil, err
			}
			// An id that is used twice in one append is one call.
			if closing != nil && !slices.ContainsFunc(closings, func(other dedupe.Closing) bool { return other.Key == key }) {
				closings = append(closings, *closing)
			}
		}
		return closings, nil
	}
}

// fence decides calls by what is recorded of them, and by their tools as they are now.
type fence struct {
	Records

	snapshot *catalog.Snapshot
}

// decide decides one call; nil for one that is not to be closed.
func (e fence) decide(ctx context.Context, key tool.CallID, answer conversation.Answer) (*dedupe.Closing, error) {
	seen, err := e.Book.Store.Note(ctx, dedupe.Note{Key: key})
	if err == nil {
		seen, err = e.Dedupe.Told(ctx, key, seen)
	}
	if err != nil && !dedupe.IsCorrupt(err) {
		return nil, notLookedUp(ctx, err)
	}
	record := seen.Record
	forgotten := err == nil && record.State == dedupe.Absent && e.Dedupe.MayBeForgotten(answer.Age)
	c := newCall(e.snapshot, Request{Use: tool.Use{Key: key, Tool: answer.Tool}})
	defer c.leave()
	r := recordedAs(c, seen)
	switch {
	case record.State == dedupe.Claimed:
		e.awaitEnd(ctx, key, record)
		return nil, &conversation.Contradiction{Answer: answer, Why: "which was running"} // so it is not its result
	case record.State == dedupe.NotRun && seen.Journaled:
		return nil, &conversation.Contradiction{Answer: answer, Why: "whose record is about to be written"}
	case !r.mayBeSaid(answer.Text) || forgotten && saysNothingRan(answer.Text) || err != nil && saysOtherwise(answer.Text):
		return nil, &conversation.Contradiction{Answer: answer, Why: "which has run, or may have, with what was not its result"}
	case err != nil || !record.State.Refused():
		return nil, nil
	}
	encoded, err := proto.Marshal(rendered(r.closed(record.MayHaveRun() || forgotten, answer.Text)))
	if err != nil {
		return nil, fault(Unreadable, "what answers the call %s cannot be written: %v", tool.Quote(key.ID), err)
	}
	return &dedupe.Closing{Key: key, Seen: seen, Tool: answer.Tool, Result: encoded, Terms: termsOf(key), Retention: e.Dedupe.Retention()}, nil
}

// awaitEnd waits for the end of a running call, as long as there is room to, so that who
// resumes then is told of it.
func (e fence) awaitEnd(ctx context.Context, key tool.CallID, running dedupe.Record) {
	var place limit.Place
	if !e.Waiting.Acquire(&place) {
		return
	}
	defer place.Leave()
	_, _ = e.Dedupe.Await(ctx, key, dedupe.Known{Record: running}) // whatever comes of it is asked anew
}

// saysOtherwise reports a text that is a sidecar's error, and not one of those that are
// true of a call whatever became of it.
func saysOtherwise(text string) bool {
	said, ours := tool.ParseError(text)
	return ours && said.Code != tool.CodeOutcomeUnknown && said.Code != tool.CodeIDReused
}

// saysNothingRan reports the words with which a call is answered that was given up before it
// ran.
func saysNothingRan(text string) bool {
	said, ours := tool.ParseError(text)
	return ours && said.Code == tool.CodeCancelled
}

// mayBeSaid reports whether a conversation may say a text of a call: it is what the
// record has, or says that nobody knows, or it is no sidecar's. Of what does no harm when
// it is had twice it may also be said that it is refused now, as whoever sends it is told.
func (r recorded) mayBeSaid(text string) bool {
	record := r.Record
	if !saysOtherwise(text) || record.State == dedupe.Closed || record.State.Refused() && !record.MayHaveRun() {
		return true
	}
	if record.State == dedupe.NotRun && record.Effect.Harmless() && r.effect().Harmless() && !saysNothingRan(text) {
		return true
	}
	last, err := result.Recorded(record)
	if err != nil {
		return false
	}
	said, _ := tool.ParseError(text)
	return string(said.Code) == last.GetError().GetCode() && said.Constraint == last.GetError().GetConstraint() || last.GetContent() != "" && strings.HasPrefix(text, last.GetContent())
}

// closed is what whoever sends a call is answered that its conversation has answered:
// that answer, when it is a sidecar's, and else that there is one, and which.
func (r recorded) closed(mayHaveRun bool, text string) *answer {
	said, ours := tool.ParseError(text)
	if !ours || said.Code == tool.CodeApprovalRequired { // of which nobody is asked any more
		said = r.subject().Answered(explain.Cleaned(r.route.Secrets, text, maxClosingChars), mayHaveRun)
	}
	a := result.For{ID: r.Key.ID}.Refused(said, 0)
	a.Recorded = true
	return a
}
