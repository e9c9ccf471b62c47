package storetest

import (
	"fmt"
	"sync"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/tool"
)

const answerOfConversation = "nothing was run"

func closing(id string, seen dedupe.Known) dedupe.Closing {
	return dedupe.Closing{Key: key(id), Seen: seen, Tool: "refund", Result: []byte(answerOfConversation), Retention: retention}
}

func (s *suite) see(k tool.CallID) dedupe.Known {
	s.Helper()
	seen, err := s.conversations().Note(s.Context(), dedupe.Note{Key: k})
	if err != nil {
		s.Fatalf("Note %q: %v", k.ID, err)
	}
	return seen
}

// answer appends nothing but the end of a call to the conversation of its key.
func (s *suite) answer(c dedupe.Closing) bool {
	s.Helper()
	k := conversationKey(c.Key.Conversation)
	before := s.stored(k, 0, 0)
	return s.write(conversation.Write{Key: k, Was: before.Head, Head: []byte("answers " + c.Key.ID), Closings: []dedupe.Closing{c}})
}

// closedAsSeen: whoever has got the call meanwhile keeps it, and nothing of the append is
// written; closed, it is answered and never runs.
func closedAsSeen(s *suite) {
	for _, free := range []struct {
		name  string
		bring func(id string)
	}{
		{"absent", func(string) {}},
		{"not_run", func(id string) {
			s.admit(request(id, "alice", tool.NonIdempotent, long))
			s.settle(settlement(id, "alice", 1, dedupe.NotRun))
		}},
		{"held", func(id string) { s.bring(id, from{held: true}, tool.NonIdempotent, s.see(key(id)).Now) }},
		{"held, allowed", func(id string) { s.bring(id, from{held: true, allowed: true}, tool.NonIdempotent, s.see(key(id)).Now) }},
	} {
		run, closed := free.name+", run", free.name+", closed"
		for _, id := range []string{run, closed} {
			free.bring(id)
		}
		seen := s.see(key(run))
		claim := s.admit(request(run, "bob", tool.NonIdempotent, long))
		s.wantVerdict(claim, dedupe.Won)
		k := conversationKey(key(run).Conversation)
		before := s.stored(k, 0, everything)
		w := conversation.Write{
			Key: k, Was: before.Head, Head: []byte("with " + run), After: int64(len(before.Messages)), Messages: texts("a result"),
			Closings: []dedupe.Closing{closing(run, seen)},
		}
		if s.write(w) {
			s.Errorf("%s: it is closed while it is claimed", free.name)
		}
		if after := s.stored(k, 0, everything); string(after.Head) != string(before.Head) || len(after.Messages) != len(before.Messages) {
			s.Errorf("%s: an append that closes nothing is written", free.name)
		}
		if got := s.settle(settlement(run, "bob", claim.Record.Epoch, dedupe.Done)); got != dedupe.Settled {
			s.Errorf("%s: its owner's settlement is %v", free.name, got)
		}

		if !s.answer(closing(closed, s.see(key(closed)))) {
			s.Errorf("%s: it is not closed", free.name)
		}
		for _, owner := range []string{"alice", "bob"} {
			late := s.admit(request(closed, owner, tool.Idempotent, long))
			s.wantVerdict(late, dedupe.Replay)
			if late.Record.State != dedupe.Closed || string(late.Record.Result) != answerOfConversation {
				s.Errorf("%s: %s is answered with %v %q", free.name, owner, late.Record.State, late.Record.Result)
			}
		}
	}
}

// closedOrRun: of who runs a call and who answers it, one comes first.
func closedOrRun(s *suite) {
	const calls = 50
	ran, answered := 0, 0
	for i := range calls {
		id := fmt.Sprintf("contested %d", i)
		seen := s.see(key(id))
		var both sync.WaitGroup
		var closes bool
		var got dedupe.Admission
		both.Go(func() { closes = s.answer(closing(id, seen)) })
		both.Go(func() { got = s.admit(request(id, "bob", tool.NonIdempotent, long)) })
		both.Wait()
		if want := map[bool]dedupe.Verdict{true: dedupe.Replay, false: dedupe.Won}[closes]; got.Verdict != want {
			s.Errorf("%s: closed %v, and the request is %v", id, closes, got.Verdict)
		}
		if closes {
			answered++
		} else {
			ran++
		}
	}
	s.Logf("%d ran, %d were answered", ran, answered)
}

// closedMany: an append may answer as many calls as a model makes in a turn. All of them
// are closed, or none.
func closedMany(s *suite) {
	const calls = 1024
	closings, now := make([]dedupe.Closing, calls), s.see(key("any")).Now
	for i := range closings {
		closings[i] = closing(fmt.Sprint("one of many, ", i), dedupe.Known{})
		closings[i].Seen.Now = now
	}
	last := closings[calls-1].Key
	claim := s.admit(request(last.ID, "bob", tool.NonIdempotent, long))
	s.wantVerdict(claim, dedupe.Won)
	w := conversation.Write{
		Key: conversationKey(last.Conversation), Head: []byte("answers all"), Messages: texts("an answer"), Closings: closings,
	}
	if s.write(w) {
		s.Error("the last one is closed while it is claimed")
	}
	if got := s.stored(w.Key, 0, everything); len(got.Head)+len(got.Messages) > 0 {
		s.Errorf("%q is written of an append that closes nothing", got.Head)
	}
	s.settle(settlement(last.ID, "bob", claim.Record.Epoch, dedupe.NotRun))
	closings[calls-1] = closing(last.ID, s.see(last))
	if !s.write(w) {
		s.Fatal("they are not closed")
	}
	for _, i := range []int{0, 1, 127, 253, 254, 255, 256, 512, calls - 2, calls - 1} {
		if got := s.lookup(closings[i].Key); got.State != dedupe.Closed || string(got.Result) != answerOfConversation {
			s.Errorf("%s: it is %v %q", closings[i].Key.ID, got.State, got.Result)
		}
	}
	if got := s.stored(w.Key, 0, everything); string(got.Head) != "answers all" || len(got.Messages) != 1 || string(got.Messages[0]) != "an answer" {
		s.Errorf("the conversation is %q with %q", got.Head, got.Messages)
	}
}
