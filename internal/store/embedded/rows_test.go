package embedded

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// conversed is a call of a conversation that leaves a tally and a log behind.
func conversed(t testing.TB, s *Store, conversation string, retention time.Duration) {
	t.Helper()
	req := request("looped", tool.NonIdempotent)
	req.Key.Conversation, req.Retention = conversation, retention
	req.Draw.Counter = "prompt"
	claim(t, s, req)
	end := settlement("looped", "ok")
	end.Key, end.Retention = req.Key, retention
	end.Tokens = 40
	end.Appends = []dedupe.Append{{Log: "guard", Entry: []byte(strings.Repeat(conversation, 30)), Keep: 9}}
	settle(t, s, end)
}

func sheets(t testing.TB, s *Store, conversation string) dedupe.Known {
	t.Helper()
	key := request("nobody's", 0).Key
	key.Conversation = conversation
	noted, err := s.Note(t.Context(), dedupe.Note{Key: key, Logs: []string{"guard"}, Counter: "prompt", Retention: time.Hour})
	if err != nil {
		t.Fatalf("the sheets of %s: %v", conversation, err)
	}
	return noted
}

func TestExpiredValuesLeaveTheFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		for i := range 500 {
			conversed(t, s, fmt.Sprint(i), time.Hour)
		}
		conversed(t, s, "longer", 24*time.Hour)
		time.Sleep(time.Hour / 2)
		n := dedupe.Note{Key: request("noted", 0).Key, Appends: []dedupe.Append{{Log: "guard", Entry: []byte("x"), Keep: 9}}, Retention: time.Hour}
		n.Key.Conversation = "0" // given more time
		if _, err := s.Note(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour/2 + time.Minute)
		s.fill(t, "", 8*segmentSize, time.Minute)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := logBytes(s); got > slack+3*segmentSize {
			t.Errorf("the log has %d bytes, of which hardly any is live", got)
		}
		if got := sheets(t, s, "longer"); got.Tally.Calls != 1 || got.Tally.Estimated != 40 || len(got.Logs[0]) != 1 {
			t.Errorf("the longer one has %+v", got)
		}
		if got := sheets(t, s, "0"); got.Tally != (dedupe.Tally{}) || len(got.Logs[0]) != 2 {
			t.Errorf("the one that was given more time has %+v", got)
		}
		s = reopen(t, s)
		if got := sheets(t, s, "1"); got.Tally != (dedupe.Tally{}) || got.Logs[0] != nil {
			t.Errorf("a conversation that is forgotten has %+v", got)
		}
	})
}

// The sheet of a tenant is no other's, whatever its conversations are called.
func TestKeysOfValues(t *testing.T) {
	t.Parallel()
	seen := map[string]dedupe.ValueKey{}
	for _, tenant := range []string{"", "t", "e", "t\x00", "t\x00\x01"} {
		for _, conversation := range []string{"", "c", "e", "t", "c\x00\x01"} {
			for _, kind := range []byte{dedupe.TallyValue, dedupe.EffectValue, dedupe.LogValue} {
				for _, name := range []string{"", "e", "t", "c"} {
					sheet := dedupe.ValueKey{Tenant: tenant, Conversation: conversation, Kind: kind, Name: name}
					key := string(kind) + string(valueKey(sheet))
					if other, known := seen[key]; known {
						t.Errorf("%+v has the key of %+v", sheet, other)
					}
					seen[key] = sheet
				}
			}
		}
	}
}

// A sheet that is changed with no time of its own is kept as long as it would have been.
func TestAValueKeepsItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		name := dedupe.ValueKey{Tenant: "acme", Conversation: "c", Kind: dedupe.EffectValue, Name: "x"}
		set := func(body string, keep time.Duration) {
			t.Helper()
			if err := s.do(t.Context(), own(dedupe.Frees, 1, func(t *txn) {
				t.SetValue(name, body, keep)
			})); err != nil {
				t.Fatal(err)
			}
		}
		has := func(want string) {
			t.Helper()
			body, err := read(t.Context(), s, func(t *txn) string { return t.Value(name) })
			if body != want || err != nil {
				t.Errorf("it has %q, %v; want %q", body, err, want)
			}
		}
		set("first", time.Hour)
		time.Sleep(time.Hour / 2)
		set("second", 0)
		has("second")
		time.Sleep(time.Hour / 2)
		has("")
	})
}
