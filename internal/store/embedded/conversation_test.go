package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
)

func transcriptKey(id string) conversation.Key { return conversation.Key{Tenant: "acme", ID: id} }

// transcribed begins a conversation with all of its messages.
func transcribed(t testing.TB, s *Store, id string, messages [][]byte, ttl time.Duration) {
	t.Helper()
	written, err := s.WriteConversation(context.Background(), conversation.Write{
		Key: transcriptKey(id), Head: []byte("head of " + id), Messages: messages, TTL: ttl,
	})
	if err != nil || !written {
		t.Fatalf("%s: written %v, %v", id, written, err)
	}
}

func TestExpiredConversationsLeaveTheFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		for i := range 500 {
			transcribed(t, s, fmt.Sprint(i), spoken(i%5), time.Hour)
		}
		transcribed(t, s, "longer", spoken(1), time.Hour)
		time.Sleep(50 * time.Minute)
		longer := conversation.Write{
			Key: transcriptKey("longer"), Was: []byte("head of longer"), Head: []byte("head of longer, gone on with"),
			After: 2, Messages: spoken(2), TTL: time.Hour,
		}
		if written, err := s.WriteConversation(t.Context(), longer); err != nil || !written {
			t.Fatal(written, err)
		}
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		s.fill(t, "", 8*segmentSize, time.Minute)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		s.still(func() {
			if len(s.index.messages) != 1 {
				t.Errorf("left: %d conversations; want only the longer one", len(s.index.messages))
			}
		})
		got, err := s.ReadConversation(t.Context(), longer.Key, 0, 1<<20)
		if err != nil || !slices.EqualFunc(got.Messages, slices.Concat(spoken(1), spoken(2)), bytes.Equal) {
			t.Errorf("the longer one is %+v, %v", got, err)
		}
		s = reopen(t, s) // it is whole
		if _, err := s.ReadConversation(t.Context(), longer.Key, 0, 0); err != nil {
			t.Error(err)
		}
	})
}

// A message is there for as long as the head of its conversation, whenever it was written, and
// whether or not the log was gone through since.
func TestAMessageIsThereForAsLongAsItsHead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		transcribed(t, s, "c", spoken(1), time.Hour)
		time.Sleep(50 * time.Minute)
		more := conversation.Write{
			Key: transcriptKey("c"), Was: []byte("head of c"), Head: []byte("gone on with"), After: 2, Messages: spoken(2), TTL: time.Hour,
		}
		if written, err := s.WriteConversation(t.Context(), more); err != nil || !written {
			t.Fatal(written, err)
		}
		time.Sleep(50 * time.Minute)
		for range 2 {
			got, err := s.ReadConversation(t.Context(), more.Key, 0, 1<<20)
			if err != nil || !slices.EqualFunc(got.Messages, slices.Concat(spoken(1), spoken(2)), bytes.Equal) {
				t.Errorf("it is %+v, %v", got, err)
			}
			s = reopen(t, s)
		}
	})
}

// A conversation that has expired and is not swept yet begins anew, and what is to
// expire is its new self.
func TestAnExpiredConversationBeginsAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		transcribed(t, s, "c", spoken(3), time.Millisecond)
		time.Sleep(2 * time.Millisecond) // the sweep comes once in a second
		transcribed(t, s, "c", spoken(1), time.Hour)
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		got, err := s.ReadConversation(t.Context(), transcriptKey("c"), 0, 1<<20)
		if err != nil || !slices.EqualFunc(got.Messages, spoken(1), bytes.Equal) {
			t.Errorf("it is %+v, %v", got, err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got, err := s.ReadConversation(t.Context(), transcriptKey("c"), 0, 1<<20); err != nil || got.Head != nil {
			t.Errorf("when it has expired it is %+v, %v", got, err)
		}
	})
}

// A message that is not as it was written is not told, nor is anything else from then on: the
// file is not what it was, and the next start refuses it.
func TestADamagedConversationIsNotServed(t *testing.T) {
	t.Parallel()
	for name, damaged := range map[string]func(x *index, key []byte) row{
		"a message": func(x *index, key []byte) row { return x.rows[x.digest(messageRow, messageKey(key, 1))] },
		"its head":  func(x *index, key []byte) row { return x.rows[x.digest(conversationRow, key)] },
	} {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		transcribed(t, s, "c", spoken(4), time.Hour)
		transcribed(t, s, "other", spoken(2), time.Hour)
		s.damage(t, damaged(s.index, conversationKey(transcriptKey("c"))).place)
		if got, err := s.ReadConversation(t.Context(), transcriptKey("c"), 1, 1<<20); !errors.Is(err, dedupe.ErrCorrupt) {
			t.Errorf("%s: it is told %d messages, %v", name, len(got.Messages), err)
		}
		var failed *dedupe.FailedError
		if _, err := s.ReadConversation(t.Context(), transcriptKey("other"), 0, 1<<20); !errors.As(err, &failed) {
			t.Errorf("%s: the other one is told: %v", name, err)
		}
		path := s.file.path
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, Options{}); !errors.Is(err, dedupe.ErrCorrupt) {
			t.Errorf("%s: opened again, it is found to be %v", name, err)
		}
	}
}

// A page of a listing has a bound, whatever has expired.
func TestAListingPassesOverWhatHasExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		for i := range 2 * listBatch {
			transcribed(t, s, fmt.Sprintf("%05d", i), spoken(0), time.Millisecond)
		}
		transcribed(t, s, "later", spoken(0), time.Hour)
		time.Sleep(2 * time.Millisecond)
		var pages, found int
		for from := ""; ; pages++ {
			page, err := s.ListConversations(t.Context(), "acme", from, 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range page.Found {
				if found++; !strings.HasPrefix(l.ID, "later") {
					t.Errorf("%q is listed", l.ID)
				}
			}
			if from = page.Next; from == "" {
				break
			}
		}
		if pages < 2 || found != 1 {
			t.Errorf("%d pages, %d found", pages+1, found)
		}
	})
}

// A listing of many more than a page looks at names each once, in order, also while others
// come.
func TestAListingOfManyIsInOrder(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	s.still(func() {
		txn := s.begin()
		for i := range 5 * listBatch {
			w := conversation.Write{Key: transcriptKey(fmt.Sprintf("%05d", i)), Head: []byte("head"), TTL: time.Hour}
			if !txn.writeConversation(conversationKey(w.Key), &w) || txn.failed != nil {
				t.Fatal(txn.failed)
			}
		}
		if err := s.commit(txn, 0); err != nil {
			t.Fatal(err)
		}
	})
	var ids []string
	for from, more := "", true; more; more = from != "" {
		page, err := s.ListConversations(t.Context(), "acme", from, 3000)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range page.Found {
			ids = append(ids, l.ID)
		}
		from = page.Next
		transcribed(t, s, fmt.Sprint("00000 ", len(ids)), spoken(0), time.Hour) // before where it is
	}
	if len(ids) != 5*listBatch || !slices.IsSorted(ids) || len(slices.Compact(ids)) != 5*listBatch {
		t.Errorf("%d are listed", len(ids))
	}
}
