package guard_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/quick"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/tool"
)

func someEntry() guard.Entry {
	return guard.Entry{
		Call: guard.Call{
			Tool: "get_order", Same: 0x1122334455667788, ID: 3, Batch: 4, Words: 5, Start: 1_763_881_671_000,
			Effect: tool.Keyed, Polling: true,
		},
		Kind: guard.Refused, Outcome: 0xfedcba9876543210, End: 1_763_881_671_250, Empty: true,
		Rule: guard.SameError, Count: 7, Refusals: 2,
	}
}

// The bytes of version 1, which other sidecars and later versions read.
func TestLayout(t *testing.T) {
	e := someEntry()
	want := "\x01\x05\x0f\x03\x07\x02" +
		"\x11\x22\x33\x44\x55\x66\x77\x88" + "\x00\x00\x00\x00\x00\x00\x00\x03" + "\x00\x00\x00\x00\x00\x00\x00\x04" +
		"\xfe\xdc\xba\x98\x76\x54\x32\x10" + "\x00\x00\x01\x9a\xaf\x8a\x59\x58" + "\x00\x00\x00\x00\x00\x00\x00\x05" +
		"\xfa\x01" + "get_order"
	if got := string(e.AppendTo(nil)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Nothing of arguments or outputs is in an entry, and its size does not depend on them.
func TestEntriesAreSmall(t *testing.T) {
	e := guard.Entry{Call: guard.Call{Tool: "get_order", Start: 1_763_881_671_000}, Kind: guard.OK, Outcome: guard.Sum(bytes.Repeat([]byte("secret"), 1<<20)), End: 1_763_881_671_250}
	if got := e.AppendTo(nil); len(got) != 65 || bytes.Contains(got, []byte("secret")) {
		t.Errorf("%d bytes, want 65: %q", len(got), got)
	}
}

// What is written is read, as far as it can be written.
func TestRoundTrip(t *testing.T) {
	trip := func(name string, same, id, batch, outcome, words uint64, start int64, took uint32, kind, effect, rule, count, refusals uint8, polling, empty bool) bool {
		e := guard.Entry{
			Call: guard.Call{
				Tool: name, Same: guard.Hash(same), ID: guard.Hash(id), Batch: guard.Hash(batch), Words: guard.Words(words),
				Start: guard.Instant(start / 2), Effect: tool.Effect(effect % 4), Polling: polling,
			},
			Kind: guard.Kind(1 + kind%5), Outcome: guard.Hash(outcome), Empty: empty, Rule: guard.Rule(rule % 7), Count: int(count), Refusals: int(refusals),
		}
		e.End = e.Start + guard.Instant(took)
		raw := e.AppendTo([]byte("before"))[len("before"):]
		got, err := guard.Decode(raw)
		if err != nil || len(raw) > guard.MaxEntryBytes {
			t.Logf("%d bytes, %v", len(raw), err)
			return false
		}
		if len(name) > 128 {
			e.Tool = got.Tool
			if len(got.Tool) > 128 || len(got.Tool) < 125 || !utf8.ValidString(got.Tool) || !strings.HasPrefix(name, got.Tool) {
				t.Logf("the name is cut to %q", got.Tool)
				return false
			}
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Log(diff)
			return false
		}
		return true
	}
	if err := quick.Check(trip, &quick.Config{MaxCount: 5000}); err != nil {
		t.Error(err)
	}
}

// What cannot be written as it is, is written as the nearest that can.
func TestUnwritable(t *testing.T) {
	e := someEntry()
	e.Tool, e.Count, e.Refusals = "get\xff_order", 1000, -1
	e.End = e.Start - 5
	got, err := guard.Decode(e.AppendTo(nil))
	if err != nil {
		t.Fatal(err)
	}
	e.Tool, e.Count, e.Refusals, e.End = "get\uFFFD_order", 255, 0, e.Start
	if diff := cmp.Diff(e, got); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeRefuses(t *testing.T) {
	whole := someEntry()
	raw := whole.AppendTo(nil)
	with := func(at int, b byte) []byte {
		other := slices.Clone(raw)
		other[at] = b
		return other
	}
	for name, c := range map[string]struct {
		raw  []byte
		want error
	}{
		"nothing":              {nil, guard.ErrCorrupt},
		"another version":      {with(0, 2), guard.ErrVersion},
		"no kind":              {with(1, 0), guard.ErrCorrupt},
		"a kind to come":       {with(1, 6), guard.ErrCorrupt},
		"flags to come":        {with(2, 0x1f), guard.ErrCorrupt},
		"a rule to come":       {with(3, 7), guard.ErrCorrupt},
		"cut short":            {raw[:53], guard.ErrCorrupt},
		"no duration":          {raw[:54], guard.ErrCorrupt},
		"half a duration":      {raw[:55], guard.ErrCorrupt},
		"an endless duration":  {append(slices.Clone(raw[:54]), bytes.Repeat([]byte{0xff}, 12)...), guard.ErrCorrupt},
		"a padded duration":    {append(slices.Clone(raw[:54]), 0x80, 0, 0), guard.ErrCorrupt},
		"a name that is none":  {append(slices.Clone(raw), 0xff), guard.ErrCorrupt},
		"an overlong name":     {append(slices.Clone(raw), bytes.Repeat([]byte("x"), 128)...), guard.ErrCorrupt},
		"only another version": {[]byte{9}, guard.ErrVersion},
	} {
		if _, err := guard.Decode(c.raw); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// Entries that cannot be read are left out, and the others judged.
func TestUnreadableEntriesAreSkipped(t *testing.T) {
	l := newLoop(t, guard.Thresholds{})
	for range 3 {
		l.make(read)
		l.log = append(l.log, []byte{versionNext, 1, 2, 3}, nil, []byte("rubbish"))
	}
	log := guard.Read(l.log)
	if log.Len() != 3 {
		t.Errorf("%d read, want 3", log.Len())
	}
	if v := l.make(read); v.Level != guard.Refuse {
		t.Errorf("%+v", v)
	}
}

const versionNext = 2

// Nothing that is read from a store makes the guard panic, and what can be read is
// what would be written.
func FuzzDecode(f *testing.F) {
	e := someEntry()
	f.Add(e.AppendTo(nil))
	f.Add([]byte{})
	f.Add([]byte{versionNext, 0, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		log := guard.Read([][]byte{raw, raw, raw, raw})
		g, err := guard.New(guard.Thresholds{})
		if err != nil {
			t.Fatal(err)
		}
		g.TurnedAway(log)
		e, err := guard.Decode(raw)
		if err != nil {
			if log.Len() != 0 || !errors.Is(err, guard.ErrCorrupt) && !errors.Is(err, guard.ErrVersion) {
				t.Fatalf("%d read, %v", log.Len(), err)
			}
			return
		}
		g.Before(log, e.Call)
		g.After(log, e)
		if got := e.AppendTo(nil); !bytes.Equal(got, raw) {
			t.Fatalf("%x is written as %x", raw, got)
		}
	})
}
