package conversation

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/tool"
)

// Compaction says which results are left out of a conversation that is loaded. The
// zero value leaves none out.
type Compaction struct {
	// AfterTurns leaves out results of turns before the last so many; 0 is no bound.
	AfterTurns int
	// ToTokens leaves the oldest results out until the conversation has about so many
	// tokens; 0 is no bound.
	ToTokens int64
}

// Any reports whether anything may be left out.
func (c Compaction) Any() bool { return c != Compaction{} }

// minSaved is how many bytes a result has to be longer than what stands for it. Nothing
// is left out twice: what stands for something is never so much longer than the next.
const minSaved = 64

// bytesPerToken is how many bytes of JSON a token has, roughly.
const bytesPerToken = 4

// turn is what the calls of one message of the model, and their results, take up: calls
// with no result between them are of one turn.
type turn struct {
	start int64 // its first message
	size  int64 // bytes of the messages before it
	saved int64 // bytes that its results are longer than what stands for them
}

// CompactBefore returns before which message results are to be left out; 0 for none. The
// results of the last turn, which the model may not have seen, never are. It reads the
// whole conversation up to a version, so that it is asked once for all pages of it; what
// it has read of a conversation before it does not read again.
func (b *Book) CompactBefore(ctx context.Context, key Key, head *Head, c Compaction) (int64, error) {
	switch {
	case c.AfterTurns < 0:
		return 0, invalid("compact_after_turns", "is %d: expected 0, which is no bound, or more", c.AfterTurns)
	case c.ToTokens < 0:
		return 0, invalid("compact_to_tokens", "is %d: expected 0, which is no bound, or more", c.ToTokens)
	case !c.Any():
		return 0, nil
	}
	s := b.surveys.of(key, head)
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if err := b.readOn(ctx, s, head.Version); err != nil {
		return 0, err
	}
	return s.before(c, head.Version), nil
}

// readOn reads what a survey has not read of a conversation.
func (b *Book) readOn(ctx context.Context, s *survey, version int64) error {
	for s.next < version {
		_, page, err := b.Load(ctx, s.key, s.next, MaxMessageBytes)
		if err != nil {
			return err
		}
		for i := range page[:min(int64(len(page)), version-s.next)] {
			if err := s.read(s.next, page[i].JSON); err != nil {
				b.surveys.forget(s) // it has stopped within a message
				return fmt.Errorf("%w: message %d: %w", ErrCorrupt, s.next, err)
			}
			s.next++
		}
	}
	return nil
}

// survey finds out where the turns of a conversation begin, and how large they are.
type survey struct {
	tracker

	key   Key
	begun time.Time     // when the conversation was
	busy  chan struct{} // has a place for who reads or asks
	next  int64         // the first message that was not read
	turns []turn
	bytes int64
	// answered: there was a result since the last call.
	answered bool
}

func (s *survey) read(at int64, raw string) error {
	s.at, s.field, s.called = at, "messages_json", false
	if err := s.tracker.read(raw); err != nil {
		return err
	}
	if s.called && (s.answered || len(s.turns) == 0) {
		s.turns, s.answered = append(s.turns, turn{start: at, size: s.bytes}), false
	}
	s.bytes += int64(len(raw))
	results, err := resultsIn(s.format, raw)
	if err != nil || len(results) == 0 {
		return err
	}
	s.answered = true
	for _, r := range results {
		if line := standIn(s.key.ID, at, r.id, raw[r.start:r.end]); len(s.turns) > 0 && line != "" {
			s.turns[len(s.turns)-1].saved += int64(r.end - r.start - len(line))
		}
	}
	return nil
}

// before is the message before which results are left out of the conversation as it was
// at a version. Others may have had the survey read on since.
func (s *survey) before(c Compaction, version int64) int64 {
	turns, left := s.turns, s.bytes
	for len(turns) > 0 && turns[len(turns)-1].start >= version {
		left = turns[len(turns)-1].size
		turns = turns[:len(turns)-1]
	}
	if len(turns) == 0 {
		return 0
	}
	first := 0 // turn whose results stay
	if c.AfterTurns > 0 {
		first = max(len(turns)-c.AfterTurns, 0)
	}
	for _, t := range turns[:first] {
		left -= t.saved
	}
	for ; c.ToTokens > 0 && first < len(turns)-1 && left > min(c.ToTokens, 1<<50)*bytesPerToken; first++ {
		left -= turns[first].saved
	}
	if first == 0 {
		return 0
	}
	return turns[first].start
}

// Compact leaves results out of messages, which begin at a place of the conversation:
// each result before a message that is longer than what stands for it becomes one line
// with its output_ref. All else stays byte for byte. The same messages give the same.
func Compact(key Key, format provider.Format, from, before int64, messages []Message) error {
	for i := range messages {
		at := from + int64(i)
		if at >= before {
			return nil
		}
		results, err := resultsIn(format, messages[i].JSON)
		if err != nil {
			return fmt.Errorf("%w: message %d: %w", ErrCorrupt, at, err)
		}
		messages[i].JSON = without(key, at, messages[i].JSON, results)
	}
	return nil
}

// without is a message without the contents of its results.
func without(key Key, at int64, raw string, results []span) string {
	var short []byte
	kept := 0
	for _, r := range results {
		if line := standIn(key.ID, at, r.id, raw[r.start:r.end]); line != "" {
			short = append(append(short, raw[kept:r.start]...), line...)
			kept = r.end
		}
	}
	if kept == 0 {
		return raw
	}
	return string(append(short, raw[kept:]...))
}

// standIn is what stands for the content of a result, as JSON; empty where the result is
// no longer than that.
func standIn(conversation string, at int64, id, content string) string {
	text := said(content)
	line := fmt.Sprintf("[A result of %s, left out of this conversation to save room: read_output with output_ref %q returns it.]",
		tool.Count(utf8.RuneCountInString(text), "character"), refOf(conversation, at, id, text))
	quoted := tool.AppendQuoted(nil, line)
	if len(quoted)+minSaved > len(content) {
		return ""
	}
	return string(quoted)
}
