//go:build e2e || prove

package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

func charged(id string, effect tool.Effect) dedupe.Request {
	req := request(id, effect)
	req.Draw.Counter = "prompt\x00\xff"
	return req
}

// What is stored are the bytes of package dedupe.
func TestRecordsAreStoredInTheLayout(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	for _, effect := range []tool.Effect{tool.NonIdempotent, tool.Keyed} {
		req := charged(effect.String(), effect)
		check := func(when string, mark bool) {
			t.Helper()
			got, _ := srv.Do("get", RecordKey("sidecall:", req.Key)).(string)
			record, err := decodeRecord(got) // its instants are the server's
			want := record
			want.Mark, want.Retention = mark, req.Retention
			want.Effect, want.Fingerprint, want.Counter, want.Tool = req.Effect, req.Fingerprint, req.Draw.Counter, req.Tool
			if diff := cmp.Diff(want, record); err != nil || diff != "" || got[0] != dedupe.LayoutVersion {
				t.Errorf("%v, %s, it stores %x: %s, %v", effect, when, got, diff, err)
			}
		}
		admit(t, s, req, dedupe.Won)
		check("claimed", false)
		admit(t, s, req, dedupe.Won)
		check("claimed twice", false)
		other := req
		other.Owner, other.Draw = "another", dedupe.Draw{}
		admit(t, s, other, dedupe.InFlight)
		check("waited for", true)
		if ok, err := storetest.Renew(t.Context(), s, req.Key, req.Owner, 1, time.Millisecond); !ok || err != nil {
			t.Fatal(ok, err)
		}
		check("renewed", true)
		if effect == tool.NonIdempotent {
			awaitState(t, s, req.Key, dedupe.Unknown)
			admit(t, s, other, dedupe.OutcomeUnknown)
			check("found unknown", false)
		}
		end := settlement(effect.String(), "paid")
		end.Owner = req.Owner
		if v, err := s.Settle(t.Context(), end); err != nil || v != dedupe.Settled {
			t.Fatal(v, err)
		}
		check("done", false)
	}
}

func admit(t *testing.T, s *Store, req dedupe.Request, want dedupe.Verdict) {
	t.Helper()
	if got, err := s.Admit(t.Context(), req); err != nil || got.Verdict != want {
		t.Fatalf("got %v, %v, want %v", got.Verdict, err, want)
	}
}

func awaitState(t *testing.T, s *Store, key tool.CallID, want dedupe.State) {
	t.Helper()
	for range 1000 {
		if got, err := storetest.Lookup(t.Context(), s, key); err == nil && got.State == want {
			return
		}
		time.Sleep(time.Millisecond) // the server's clock
	}
	t.Fatalf("it is never %v", want)
}

// What another version has written is not touched, and is an error of its own to
// whoever meets it: that version may know what became of the call.
func TestARecordOfAnotherLayout(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	req := charged("x", tool.NonIdempotent)
	name := RecordKey("sidecall:", req.Key)
	admit(t, s, req, dedupe.Won)
	sound, _ := srv.Do("get", name).(string)
	for what, other := range map[string]string{
		"a later layout": "\x02" + sound[1:], "a layout": "\xff" + sound[1:], "a layout of no length": "\x02", "no layout that was ever written": "\x00" + sound[1:],
	} {
		srv.Do("set", name, other)
		for who, err := range touch(t, s, req) {
			if !errors.Is(err, dedupe.ErrLayout) || errors.Is(err, dedupe.ErrCorrupt) || strings.Count(err.Error(), name) != 1 {
				t.Errorf("%s: %s says %v", what, who, err)
			}
		}
		if got, _ := srv.Do("get", name).(string); got != other {
			t.Errorf("%s: it was changed to %x", what, got)
		}
	}
	srv.Do("set", name, sound)
	admit(t, s, req, dedupe.Won)
}

// The layout of a holder of an effect is looked at as well.
func TestAHolderOfAnotherLayout(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	req := request("x", tool.NonIdempotent)
	req.EffectKey = dedupe.EffectKey{Print: [32]byte{1}, Window: time.Hour}
	admit(t, s, req, dedupe.Won)
	srv.Do("setrange", RecordKey("sidecall:", req.Key), "0", "\x02")
	other := req
	other.Key.ID, other.Owner = "y", "another"
	if got, err := s.Admit(t.Context(), other); !errors.Is(err, dedupe.ErrLayout) || strings.Count(err.Error(), "record sidecall:") != 1 {
		t.Errorf("got %v, %v", got.Verdict, err)
	}
}

// A record that cannot be is an error to whoever meets it, which names it, and
// nothing is run, settled or renewed for it.
func TestImpossibleRecords(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	req := charged("x", tool.NonIdempotent)
	name := RecordKey("sidecall:", req.Key)
	admit(t, s, req, dedupe.Won)
	if v, err := s.Settle(t.Context(), settlement("x", "paid")); err != nil || v != dedupe.Settled {
		t.Fatal(v, err)
	}
	sound, _ := srv.Do("get", name).(string)
	for what, bad := range impossible(t, sound) {
		srv.Do("set", name, bad)
		refuses(t, s, what, req)
		if got, _ := srv.Do("get", name).(string); got != bad {
			t.Errorf("a record %s was changed to %x", what, got)
		}
	}
	srv.Do("del", name)
	srv.Do("rpush", name, "no string")
	refuses(t, s, "of another type", req)
	srv.Do("set", name, sound)
	admit(t, s, req, dedupe.Replay)
}

// refuses asks for everything that touches a record, which is a corrupt one.
func refuses(t *testing.T, s *Store, what string, req dedupe.Request) {
	t.Helper()
	for who, err := range touch(t, s, req) {
		if !errors.Is(err, dedupe.ErrCorrupt) || !dedupe.IsCorrupt(err) || !strings.Contains(err.Error(), RecordKey("sidecall:", req.Key)) {
			t.Errorf("a record %s: %s says %v", what, who, err)
		}
	}
}

// touch asks for everything that touches a record, and returns what is said.
func touch(t *testing.T, s *Store, req dedupe.Request) map[string]error {
	t.Helper()
	_, admitErr := s.Admit(t.Context(), req)
	other := req
	other.Owner = "another"
	_, otherErr := s.Admit(t.Context(), other)
	_, settleErr := s.Settle(t.Context(), settlement("x", "aid"))
	_, renewErr := storetest.Renew(t.Context(), s, req.Key, req.Owner, 1, time.Minute)
	_, lookupErr := storetest.Lookup(t.Context(), s, req.Key)
	return map[string]error{
		"Admit": admitErr, "Admit of another": otherErr, "Settle": settleErr, "Renew": renewErr, "Lookup": lookupErr,
	}
}

// impossible makes records that cannot be of one that is DONE: what a server, a
// disk or a hand may make of it, and under a seal too.
func impossible(t *testing.T, sound string) map[string]string {
	t.Helper()
	at := func(i int, b ...byte) string {
		return string(slices.Concat([]byte(sound[:i]), b, []byte(sound[i+len(b):])))
	}
	all := map[string]string{
		"in state 0":              at(1, 0),
		"in state 9":              at(1, 9),
		"made NOT_RUN":            at(1, byte(dedupe.NotRun)),
		"made UNKNOWN":            at(1, byte(dedupe.Unknown)),
		"made CLAIMED":            at(1, byte(dedupe.Claimed)),
		"of another effect":       at(2, byte(tool.Idempotent)),
		"marked 2":                at(3, 2),
		"of 2^31 tries":           at(4, 0x80, 0, 0, 0),
		"at epoch 0":              at(8, 0, 0, 0, 0, 0, 0, 0, 0),
		"at epoch 2":              at(15, 2),
		"of nobody":               at(80, 0, 0),
		"of another owner":        at(82, 'O'),
		"cut by 1":                sound[:len(sound)-1],
		"cut by 5":                sound[:len(sound)-5],
		"written at another time": at(len(sound)-1, sound[len(sound)-1]^1),
		"written at no such time": at(len(sound)-9, sound[len(sound)-9]^1),
		"without when it was":     sound[:len(sound)-stampBytes],
		"too long":                sound + "!",
		"cut to its head":         sound[:40],
		"of one byte":             sound[:1],
		"empty":                   "",
	}
	stored, err := decodeRecord(sound)
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*dedupe.Stored){
		"in state 0":    func(s *dedupe.Stored) { s.State = 0 },
		"in state 9":    func(s *dedupe.Stored) { s.State = 9 },
		"of effect 4":   func(s *dedupe.Stored) { s.Effect = tool.Keyed + 1 },
		"of 2^31 tries": func(s *dedupe.Stored) { s.Attempts = 1 << 31 },
		"at epoch -1":   func(s *dedupe.Stored) { s.Epoch = -1 },
		"claimed at 0":  func(s *dedupe.Stored) { s.State, s.Epoch = dedupe.Claimed, 0 },
		"of nobody":     func(s *dedupe.Stored) { s.Owner = "" },
		"kept for 0":    func(s *dedupe.Stored) { s.Retention = 0 },
	} {
		changed := stored
		change(&changed)
		all["sealed "+what] = stamp(string(changed.AppendSealed(nil)), time.Now())
	}
	return all
}

// The bytes of a result are looked at by whoever tells it.
func TestAResultThatIsNotWhatWasRecorded(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	req := request("x", tool.NonIdempotent)
	admit(t, s, req, dedupe.Won)
	if v, err := s.Settle(t.Context(), settlement("x", "paid")); err != nil || v != dedupe.Settled {
		t.Fatal(v, err)
	}
	srv.Do("setrange", RecordKey("sidecall:", req.Key), fmt.Sprint(len(srv.Do("get", RecordKey("sidecall:", req.Key)).(string))-stampBytes-1), "n")
	_, admitErr := s.Admit(t.Context(), req)
	_, lookupErr := storetest.Lookup(t.Context(), s, req.Key)
	if !dedupe.IsCorrupt(admitErr) || !dedupe.IsCorrupt(lookupErr) {
		t.Errorf("replayed: %v; looked up: %v", admitErr, lookupErr)
	}
	if v, err := s.Settle(t.Context(), settlement("x", "paid")); !dedupe.IsCorrupt(err) {
		t.Errorf("settled again: %v, %v", v, err)
	}
}

// One record that cannot be read keeps no other from being listed, and is named.
func TestAListingWithCorruptRecords(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	for _, id := range []string{"a", "b", "c"} {
		admit(t, s, request(id, tool.NonIdempotent), dedupe.Won)
		end := settlement(id, "perhaps")
		end.State = dedupe.Unknown
		if v, err := s.Settle(t.Context(), end); err != nil || v != dedupe.Settled {
			t.Fatal(v, err)
		}
	}
	name := func(id string) string { return RecordKey("sidecall:", request(id, 0).Key) }
	srv.Do("setrange", name("b"), "1", "\x09") // state 9
	srv.Do("set", name("short"), "\x01")
	srv.Do("set", name("future"), "\x09\x02\x00\x00")
	srv.Do("rpush", name("list"), "1")
	srv.Do("set", "sidecall:{000}/no key of a record", "?")
	page, err := s.ListOpen(t.Context(), "")
	if err != nil || page.Next != "" {
		t.Fatal(page.Next, err)
	}
	var unknown, corrupt []string
	for _, call := range page.Calls {
		if call.Err == nil {
			unknown = append(unknown, call.Key.ID)
			continue
		}
		corrupt = append(corrupt, call.Key.ID)
		other := call.Key.ID == "future"
		if dedupe.IsCorrupt(call.Err) == other || errors.Is(call.Err, dedupe.ErrLayout) != other || strings.Count(call.Err.Error(), "sidecall:{") != 1 || call.Record.State != dedupe.Absent {
			t.Errorf("%+v", call)
		}
	}
	slices.Sort(unknown)
	slices.Sort(corrupt)
	if !slices.Equal(unknown, []string{"a", "c"}) || !slices.Equal(corrupt, []string{"", "b", "future", "list", "short"}) {
		t.Errorf("unknown are %q, corrupt %q", unknown, corrupt)
	}
}
