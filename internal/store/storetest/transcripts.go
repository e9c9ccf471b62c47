package storetest

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/internal/conversation"
)

// conversations is the store as one of conversations.
func (s *suite) conversations() conversation.Store {
	s.Helper()
	store, ok := s.store.(conversation.Store)
	switch {
	case s.callsAlone && !ok:
		s.Skip("the store keeps no conversations")
	case !ok:
		s.Fatalf("%T keeps no conversations", s.store)
	}
	return store
}

func conversationKey(id string) conversation.Key {
	return conversation.Key{Tenant: "acme", ID: id}
}

// write writes, and fails when the store cannot.
func (s *suite) write(w conversation.Write) bool {
	s.Helper()
	if w.TTL == 0 {
		w.TTL = time.Hour
	}
	written, err := s.conversations().WriteConversation(s.Context(), w)
	if err != nil {
		s.Fatalf("WriteConversation %q: %v", w.Key, err)
	}
	return written
}

func (s *suite) stored(k conversation.Key, from int64, most int) conversation.Stored {
	s.Helper()
	stored, err := s.conversations().ReadConversation(s.Context(), k, from, most)
	if err != nil {
		s.Fatalf("ReadConversation %q: %v", k, err)
	}
	return stored
}

func texts(messages ...string) (all [][]byte) {
	for _, m := range messages {
		all = append(all, []byte(m))
	}
	return all
}

const everything = 64 << 20

// conversationsKept: what is written comes back byte for byte, from any message on.
func conversationsKept(s *suite) {
	large := strings.Repeat(every, 9<<10) // in pieces, wherever a store cuts
	messages := texts("one", "", every, large, "five")
	key := conversationKey("c")
	if got := s.stored(key, 0, everything); len(got.Head) != 0 || len(got.Messages) != 0 {
		s.Fatalf("before anything was written: %+v", got)
	}
	if !s.write(conversation.Write{Key: key, Head: []byte("h1"), Messages: messages[:3]}) ||
		!s.write(conversation.Write{Key: key, Was: []byte("h1"), Head: []byte(every), After: 3, Messages: messages[3:]}) {
		s.Fatal("not written")
	}
	for from := range messages {
		got := s.stored(key, int64(from), everything)
		if string(got.Head) != every || !slices.EqualFunc(got.Messages, messages[from:], bytes.Equal) {
			s.Errorf("from %d on: %d messages, head %q", from, len(got.Messages), got.Head)
		}
	}
	for most, want := range map[int]int{0: 0, 1: 1, 3: 2, len("one") + len(every): 3, len("one") + len(every) + 1: 3, len(large): 3} {
		if got := s.stored(key, 0, most); len(got.Messages) != want {
			s.Errorf("of at most %d bytes: %d messages, want %d", most, len(got.Messages), want)
		}
	}
	if got := s.stored(key, 3, 1); len(got.Messages) != 1 || !bytes.Equal(got.Messages[0], messages[3]) {
		s.Errorf("a large one alone: %d messages", len(got.Messages))
	}
	for _, from := range []int64{5, math.MaxInt64} {
		if got := s.stored(key, from, everything); len(got.Messages) != 0 {
			s.Errorf("behind the last, at %d: %d messages", from, len(got.Messages))
		}
	}
}

// conversationsCompared: a write that follows another head changes nothing, and one
// that was written already is.
func conversationsCompared(s *suite) {
	key := conversationKey("c")
	if s.write(conversation.Write{Key: key, Was: []byte("h0"), Head: []byte("h1"), Messages: texts("x")}) {
		s.Error("a write after a head that is not there")
	}
	first := conversation.Write{Key: key, Head: []byte("h1"), Messages: texts("a")}
	for range 2 {
		if !s.write(first) {
			s.Error("it is not written")
		}
	}
	if s.write(conversation.Write{Key: key, Head: []byte("h2"), Messages: texts("x")}) {
		s.Error("it was begun twice")
	}
	second := conversation.Write{Key: key, Was: []byte("h1"), Head: []byte("h2"), After: 1, Messages: texts("b")}
	if !s.write(second) || s.write(first) || !s.write(second) {
		s.Error("what is stale was written, or what is written was not")
	}
	if got := s.stored(key, 0, everything); string(got.Head) != "h2" || !slices.EqualFunc(got.Messages, texts("a", "b"), bytes.Equal) {
		s.Errorf("it has %q under %q", got.Messages, got.Head)
	}
}

// conversationsRaced: of those who follow one head one is written.
func conversationsRaced(s *suite) {
	const crowd, rounds = 8, 12
	key := conversationKey("c")
	for round := range rounds {
		was := s.stored(key, 0, 0).Head
		var written atomic.Int64
		var all sync.WaitGroup
		for i := range crowd {
			all.Go(func() {
				mine := fmt.Sprint(round, " ", i)
				ok, err := s.conversations().WriteConversation(s.Context(), conversation.Write{
					Key: key, Was: was, Head: []byte(mine), After: int64(round), Messages: texts(mine), TTL: time.Hour,
				})
				if err != nil {
					s.Error(err)
				}
				if ok {
					written.Add(1)
				}
			})
		}
		all.Wait()
		if written.Load() != 1 {
			s.Fatalf("round %d: %d were written", round, written.Load())
		}
	}
	got := s.stored(key, 0, everything)
	if len(got.Messages) != rounds || !bytes.Equal(got.Head, got.Messages[rounds-1]) {
		s.Errorf("%d messages, %q under %q", len(got.Messages), got.Messages, got.Head)
	}
}

// conversationsApart: no two keys are one conversation, and a listing is of one tenant.
func conversationsApart(s *suite) {
	components := []string{"a", "b", "a/b", "/", "{", "}", "{a}", "*", "a*", "[a]", "?", `\`, "%", "%2F", "\x00", "\x00\x01", "\xff", "a\x00", "é", every}
	want := map[string][]string{}
	for _, tenant := range append([]string{""}, components...) {
		for _, id := range components {
			if !s.write(conversation.Write{Key: conversation.Key{Tenant: tenant, ID: id}, Head: []byte("head of " + id + " of " + tenant), Messages: texts(id)}) {
				s.Fatalf("%q of %q is taken for another", id, tenant)
			}
			want[tenant] = append(want[tenant], id)
		}
	}
	for _, tenant := range []string{"", "a", "*", "\x00", every} { // on Redis a listing passes over all keys of the server
		ids := want[tenant]
		for _, most := range []int{7, 1000} {
			slices.Sort(ids)
			if got := s.listed(tenant, most); !slices.Equal(got, ids) {
				s.Errorf("tenant %q, %d at a time: listed are %q, want %q", tenant, most, got, ids)
			}
		}
	}
	if got := s.listed("nobody", 10); len(got) != 0 {
		s.Errorf("of nobody: %q", got)
	}
	if _, err := s.conversations().ListConversations(s.Context(), "", "no such place", 1); err == nil {
		s.Error("a listing goes on from no such place")
	}
}

// listed are the ids of all pages.
func (s *suite) listed(tenant string, most int) (ids []string) {
	s.Helper()
	for from := ""; ; {
		page, err := s.conversations().ListConversations(s.Context(), tenant, from, most)
		if err != nil {
			s.Fatalf("ListConversations of %q: %v", tenant, err)
		}
		for _, found := range page.Found {
			if want := "head of " + found.ID + " of " + tenant; string(found.Head) != want {
				s.Errorf("%q is listed with the head %q, want %q", found.ID, found.Head, want)
			}
			ids = append(ids, found.ID)
		}
		if from = page.Next; from == "" {
			slices.Sort(ids)
			return slices.Compact(ids)
		}
	}
}

// conversationsExpire: a conversation is forgotten whole after its time, which each
// write begins anew, and begins anew itself.
func conversationsExpire(s *suite) {
	brief, kept := conversationKey("brief"), conversationKey("kept")
	s.write(conversation.Write{Key: brief, Head: []byte("head of brief of acme"), Messages: texts("old", "older"), TTL: s.lease})
	s.await("a conversation is written to before its time is over", func() bool { // on a machine that stands still
		s.write(conversation.Write{Key: kept, Head: []byte("h"), Messages: texts("a"), TTL: s.lease})
		return s.write(conversation.Write{Key: kept, Was: []byte("h"), Head: []byte("head of kept of acme"), After: 1, Messages: texts("b")})
	})
	s.await("the conversation is forgotten", func() bool { return len(s.stored(brief, 0, everything).Head) == 0 })
	if got := s.listed("acme", 10); !slices.Equal(got, []string{"kept"}) {
		s.Errorf("listed are %q", got)
	}
	if got := s.stored(kept, 0, everything); len(got.Messages) != 2 {
		s.Errorf("with it went %q", got.Messages)
	}
	if s.write(conversation.Write{Key: brief, Was: []byte("head of brief of acme"), Head: []byte("x"), After: 2, Messages: texts("y")}) {
		s.Error("what was forgotten is gone on with")
	}
	if !s.write(conversation.Write{Key: brief, Head: []byte("head of brief of acme"), Messages: texts("new")}) {
		s.Error("it does not begin anew")
	}
	if got := s.stored(brief, 0, everything); !slices.EqualFunc(got.Messages, texts("new"), bytes.Equal) {
		s.Errorf("begun anew it has %q", got.Messages)
	}
}
