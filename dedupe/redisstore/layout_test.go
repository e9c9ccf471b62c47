//go:build e2e

package redisstore

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/testkit/redisserver"
	"github.com/sidecall/sidecall/tool"
)

func charged(id string, effect tool.Effect) dedupe.Request {
	req := request(id, effect)
	req.Charges = []dedupe.Charge{{Counter: "prompt", Amount: 1<<62 + 1}, {Counter: "\x00\xff", Amount: 1}}
	return req
}

// The scripts store the bytes that package dedupe would.
func TestTheScriptsStoreTheLayout(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	for _, effect := range []tool.Effect{tool.NonIdempotent, tool.Keyed} {
		req := charged(effect.String(), effect)
		check := func(when string, mark bool) {
			t.Helper()
			got, _ := srv.Do("get", recordKey("sidecall:", req.Key)).(string)
			record, err := decode(got) // its instants are the server's
			want := dedupe.Stored{Record: record, Mark: mark, Retention: req.Retention}
			want.Effect, want.Fingerprint, want.Charges, want.Tool = req.Effect, req.Fingerprint, req.Charges, req.Tool
			if stored := append(want.AppendTo(nil), want.Result...); err != nil || got != string(stored) {
				t.Errorf("%v, %s, it stores\n%x, want\n%x (%v)", effect, when, got, stored, err)
			}
		}
		admit(t, s, req, dedupe.Won)
		check("claimed", false)
		admit(t, s, req, dedupe.Won)
		check("claimed twice", false)
		other := req
		other.Owner, other.Charges = "another", nil
		admit(t, s, other, dedupe.InFlight)
		check("waited for", true)
		if ok, err := s.Renew(t.Context(), req.Key, req.Owner, 1, time.Millisecond); !ok || err != nil {
			t.Fatal(ok, err)
		}
		check("renewed", true)
		if effect == tool.NonIdempotent {
			awaitState(t, s, req.Key, dedupe.Unknown)
			admit(t, s, other, dedupe.OutcomeUnknown)
			check("found unknown", true)
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

func awaitState(t *testing.T, s *Store, key dedupe.Key, want dedupe.State) {
	t.Helper()
	for range 1000 {
		if got, err := s.Lookup(t.Context(), key); err == nil && got.State == want {
			return
		}
		time.Sleep(time.Millisecond) // the server's clock
	}
	t.Fatalf("it is never %v", want)
}

// Records of the version before are read, renewed and settled; each is then one
// of this version.
func TestRecordsOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	store := func(id string, effect tool.Effect, state dedupe.State, result string) dedupe.Request {
		req := request(id, effect)
		today := dedupe.Stored{Retention: 24 * time.Hour, Record: dedupe.Record{
			State: state, Effect: effect, Epoch: 1, Owner: req.Owner, Tool: req.Tool, Fingerprint: req.Fingerprint,
			StartedAt: dedupe.Instant(1), LeaseUntil: dedupe.Instant(1 << 42),
		}}
		b := today.AppendTo(nil)
		b[0] = 2
		srv.Do("set", recordKey("sidecall:", req.Key), string(b[:len(b)-2])+result)
		return req
	}
	version := func(req dedupe.Request) byte {
		got, _ := srv.Do("get", recordKey("sidecall:", req.Key)).(string)
		return got[0]
	}
	done := store("done", tool.NonIdempotent, dedupe.Done, "paid")
	admit(t, s, done, dedupe.Replay)
	if got, err := s.Lookup(t.Context(), done.Key); err != nil || string(got.Result) != "paid" || got.Charges != nil {
		t.Errorf("read as %+v, %v", got, err)
	}
	if v, err := s.Settle(t.Context(), settlement("done", "paid")); err != nil || v != dedupe.Settled {
		t.Errorf("settled again: %v, %v", v, err)
	}
	if v, err := s.Settle(t.Context(), settlement("done", "aid")); err != nil || v != dedupe.Superseded {
		t.Errorf("settled otherwise: %v, %v", v, err)
	}
	claimed := store("claimed", tool.NonIdempotent, dedupe.Claimed, "")
	if ok, err := s.Renew(t.Context(), claimed.Key, claimed.Owner, 1, time.Minute); !ok || err != nil || version(claimed) != 3 {
		t.Errorf("renewed: %v, %v, as of version %d", ok, err, version(claimed))
	}
	wordless := store("wordless", tool.NonIdempotent, dedupe.Unknown, "")
	end := settlement("wordless", "perhaps")
	end.State = dedupe.Unknown
	if v, err := s.Settle(t.Context(), end); err != nil || v != dedupe.Settled || version(wordless) != 3 {
		t.Errorf("told what to answer: %v, %v, as of version %d", v, err, version(wordless))
	}
	again := store("again", tool.NonIdempotent, dedupe.NotRun, "refused")
	again.Owner = "another"
	admit(t, s, again, dedupe.Won)
	if got, err := s.Lookup(t.Context(), again.Key); err != nil || got.Epoch != 2 || got.Result != nil {
		t.Errorf("claimed again as %+v, %v", got, err)
	}
}

// What the version before has really stored.
func TestBytesOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]dedupe.Record{
		"02020300000000030000000000000001000001a205566daa000001a205566daa00000000000000000000000005265c000700000000000000000000000000000000000000000000000000000000000000000f6f776e6572206f66203120646f6e650006726566756e6470616964": {
			State: dedupe.Done, Effect: tool.Keyed, Attempts: 3, Epoch: 1, Owner: "owner of 1 done", Tool: "refund", Fingerprint: [32]byte{7},
			StartedAt: dedupe.Instant(0x1a205566daa), FinishedAt: dedupe.Instant(0x1a205566daa), Result: []byte("paid"),
		},
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(string(b))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
}

// A record that cannot be is an error to whoever meets it, and nothing is run,
// settled or renewed for it.
func TestImpossibleRecords(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	req := charged("x", tool.NonIdempotent)
	name := recordKey("sidecall:", req.Key)
	admit(t, s, req, dedupe.Won)
	sound, _ := srv.Do("get", name).(string)
	at := func(i int, b ...byte) string {
		return string(slices.Concat([]byte(sound[:i]), b, []byte(sound[i+len(b):])))
	}
	for what, bad := range map[string]string{
		"in state 0":      at(1, 0),
		"in state 9":      at(1, 9),
		"of effect 4":     at(2, 4),
		"marked 2":        at(3, 2),
		"of 2^31 tries":   at(4, 0x80, 0, 0, 0),
		"at epoch 0":      at(8, 0, 0, 0, 0, 0, 0, 0, 0),
		"of version 9":    at(0, 9),
		"of nobody":       at(80, 0, 0),
		"cut short":       sound[:len(sound)-3],
		"cut to its head": sound[:40],
		"of one byte":     sound[:1],
		"empty":           "",
	} {
		srv.Do("set", name, bad)
		_, admitErr := s.Admit(t.Context(), req)
		other := req
		other.Owner = "another"
		_, otherErr := s.Admit(t.Context(), other)
		_, settleErr := s.Settle(t.Context(), settlement("x", "paid"))
		_, renewErr := s.Renew(t.Context(), req.Key, req.Owner, 1, time.Minute)
		_, lookupErr := s.Lookup(t.Context(), req.Key)
		for who, err := range map[string]error{"Admit": admitErr, "Admit of another": otherErr, "Settle": settleErr, "Renew": renewErr, "Lookup": lookupErr} {
			if !errors.Is(err, dedupe.ErrCorrupt) {
				t.Errorf("a record %s: %s says %v", what, who, err)
			}
		}
		if got, _ := srv.Do("get", name).(string); got != bad {
			t.Errorf("a record %s was changed to %x", what, got)
		}
		if !strings.HasPrefix(what, "in state") {
			continue
		}
		if page, err := s.ListUnknown(t.Context(), ""); !errors.Is(err, dedupe.ErrCorrupt) {
			t.Errorf("a record %s: listed as %+v, %v", what, page, err)
		}
	}
}
