package conversation_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/conversation"
)

// counted counts the messages that are read.
type counted struct {
	conversation.Store

	messages atomic.Int64
}

func (c *counted) ReadConversation(ctx context.Context, key conversation.Key, from int64, most int) (conversation.Stored, error) {
	stored, err := c.Store.ReadConversation(ctx, key, from, most)
	c.messages.Add(int64(len(stored.Messages)))
	return stored, err
}

// turnOf is a question, a call and its result.
func turnOf(n int) []string {
	id := fmt.Sprintf("call_%d", n)
	return []string{
		`{"role":"user","content":"go on"}`,
		`{"role":"assistant","content":[{"type":"tool_use","id":"` + id + `","name":"look","input":{}}]}`,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"` + strings.Repeat("x", 2000) + `"}]}`,
	}
}

func converseFor(t *testing.T, b *conversation.Book, turns int) {
	t.Helper()
	for n := range turns {
		appended(t, b, follows(int64(3*n), turnOf(n)...))
	}
}

// 60 bytes that ask for a compacted conversation read 63 MB, a hundred of them took 22 s
// and 2 GB. Each message is read once, whoever asks, and however often.
func TestAMessageIsReadOnceToCompact(t *testing.T) {
	t.Parallel()
	b := book(t)
	store := &counted{Store: b.Store}
	b.Store = store
	converseFor(t, b, 10)
	before := func(want int64) {
		head, _, err := b.Load(t.Context(), key, 0, 0)
		if err != nil {
			t.Error(err)
		}
		if cut, err := b.CompactBefore(t.Context(), key, &head, conversation.Compaction{AfterTurns: 2}); err != nil || cut != want {
			t.Errorf("before message %d, want %d: %v", cut, want, err)
		}
	}
	store.messages.Store(0)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { before(25) })
	}
	all.Wait()
	if n := store.messages.Load(); n != 30 {
		t.Errorf("%d messages were read of 30", n)
	}
	appended(t, b, follows(30, turnOf(10)...))
	before(28)
	if n := store.messages.Load(); n != 33 {
		t.Errorf("%d messages were read of 33", n)
	}
}

// Who has loaded a conversation before others went on with it is told what to leave out of
// what it has: the results of the last turn there stay.
func TestAnEarlierVersionIsCompactedAsItWas(t *testing.T) {
	t.Parallel()
	b := book(t)
	all := map[conversation.Compaction]int64{{AfterTurns: 1}: 0, {ToTokens: 1}: 0, {ToTokens: 1700}: 0}
	cut := func(head conversation.Head, c conversation.Compaction) int64 {
		before, err := b.CompactBefore(t.Context(), key, &head, c)
		if err != nil {
			t.Error(err)
		}
		return before
	}
	loaded := func() conversation.Head {
		head, _, err := b.Load(t.Context(), key, 0, 0)
		if err != nil {
			t.Error(err)
		}
		return head
	}
	converseFor(t, b, 4)
	early := loaded()
	for c := range all {
		all[c] = cut(early, c)
	}
	for n := range 4 {
		appended(t, b, follows(int64(12+3*n), turnOf(4+n)...))
	}
	cut(loaded(), conversation.Compaction{AfterTurns: 1})
	for c, want := range all {
		if got := cut(early, c); got != want {
			t.Errorf("%+v: before message %d, and before others went on %d", c, got, want)
		}
	}
}

// One that has ended, and another that has begun under its id, are two.
func TestAnEarlierConversationIsNotCompacted(t *testing.T) {
	t.Parallel()
	old, young := book(t), book(t)
	young.Store = inAnHour{young.Store}
	converseFor(t, old, 10)
	converseFor(t, young, 3)
	b := book(t)
	for _, c := range []struct {
		store conversation.Store
		want  int64
	}{{old.Store, 25}, {young.Store, 4}} {
		b.Store = c.store
		head, _, err := b.Load(t.Context(), key, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if cut, err := b.CompactBefore(t.Context(), key, &head, conversation.Compaction{AfterTurns: 2}); err != nil || cut != c.want {
			t.Errorf("before message %d, want %d: %v", cut, c.want, err)
		}
	}
}

// inAnHour is a store by whose clock it is an hour later.
type inAnHour struct{ conversation.Store }

func (s inAnHour) ReadConversation(ctx context.Context, key conversation.Key, from int64, most int) (conversation.Stored, error) {
	stored, err := s.Store.ReadConversation(ctx, key, from, most)
	stored.Now = stored.Now.Add(time.Hour)
	return stored, err
}

// What is remembered of conversations is bounded, and asking ends with who asks.
func TestManyConversationsAreCompacted(t *testing.T) {
	t.Parallel()
	b := book(t)
	for n := range 200 {
		a := follows(0, turnOf(n)...)
		a.Key.ID = fmt.Sprint(n)
		appended(t, b, a)
	}
	for range 2 {
		for n := range 200 {
			of := key
			of.ID = fmt.Sprint(n)
			head, _, err := b.Load(t.Context(), of, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			if cut, err := b.CompactBefore(t.Context(), of, &head, conversation.Compaction{AfterTurns: 1}); err != nil || cut != 0 {
				t.Errorf("%d: %d, %v", n, cut, err)
			}
		}
	}
}
