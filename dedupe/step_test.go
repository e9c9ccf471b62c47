package dedupe_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
)

// noted is an engine that notes what steps write, and whether the last one binds.
type noted struct {
	dedupe.Engine
	wrote []string
	binds bool
}

func (n *noted) Do(ctx context.Context, s *dedupe.Step) error {
	noted := *s
	noted.Apply = func(rows dedupe.Rows) { s.Apply(notedRows{rows, n}) }
	err := n.Engine.Do(ctx, &noted)
	n.binds = s.Binds
	return err
}

type notedRows struct {
	dedupe.Rows
	by *noted
}

func (r notedRows) SetCall(key tool.CallID, record *dedupe.Record, retention time.Duration, terms []dedupe.Term) {
	what := "record"
	if retention == 0 {
		what = "record as it is"
	}
	r.by.wrote = append(r.by.wrote, what)
	r.Rows.SetCall(key, record, retention, terms)
}

func (r notedRows) SetValue(name dedupe.ValueKey, body string, keep time.Duration) {
	r.by.wrote = append(r.by.wrote, map[byte]string{dedupe.TallyValue: "tally", dedupe.EffectValue: "effect", dedupe.ReceiptValue: "receipt"}[name.Kind])
	r.Rows.SetValue(name, body, keep)
}

func (r notedRows) Append(key tool.CallID, a dedupe.Append, keep time.Duration) {
	r.by.wrote = append(r.by.wrote, "log")
	r.Rows.Append(key, a, keep)
}

// What a step writes, on every engine: what it changes, and what is promised of an answer
// that was given before. On Redis each is a word of the step, and whoever only looks
// waits for no replica.
func TestWhatAStepWrites(t *testing.T) {
	t.Parallel()
	engine := &noted{Engine: embedded.InMemory(embedded.Options{})}
	m := dedupe.Machine{Engine: engine}
	writes := func(what, want string) {
		t.Helper()
		slices.Sort(engine.wrote)
		if got := strings.Join(engine.wrote, " "); got != want {
			t.Errorf("%s writes %q, want %q", what, got, want)
		}
		if record := strings.Contains(strings.Join(engine.wrote, " "), "record"); engine.binds != record {
			t.Errorf("%s binds %v", what, engine.binds)
		}
		engine.wrote = nil
	}
	req := refund(tool.NonIdempotent)
	req.Owner, req.Lease, req.Retention = "alice", time.Hour, 24*time.Hour
	req.Draw.Counter = "p"
	req.EffectKey = dedupe.EffectKey{Print: [32]byte{1}, Window: time.Hour}
	admit := func(what string, req dedupe.Request, want dedupe.Verdict, wrote string) {
		t.Helper()
		if got, err := m.Admit(t.Context(), req); err != nil || got.Verdict != want {
			t.Fatalf("%s: %v, %v", what, got.Verdict, err)
		}
		writes(what, wrote)
	}
	other := req
	other.Owner = "bob"
	admit("a claim", req, dedupe.Won, "effect record tally")
	admit("a claim that is asked for again", req, dedupe.Won, "record")
	admit("who finds it claimed", other, dedupe.InFlight, "")
	another := other
	another.Key.ID = "another"
	admit("who finds its effect claimed", another, dedupe.EffectInFlight, "")

	renewal := dedupe.Renewal{
		Key: req.Key, Lease: time.Hour, Retention: time.Hour,
		Claim: dedupe.Origin{Record: dedupe.Record{Epoch: 1, Owner: "alice", Counter: "p"}, EffectKey: req.EffectKey},
	}
	renew := func(what string, restored bool, wrote string) {
		t.Helper()
		if _, got, err := m.Renew(t.Context(), renewal); err != nil || got != restored {
			t.Fatalf("%s: %v, %v", what, got, err)
		}
		writes(what, wrote)
	}
	renew("a renewal", false, "record")
	renewal.Claim.Record.Owner = "bob"
	renew("a renewal by another", false, "")
	renewal.Claim.Record.Owner = "alice"

	end := dedupe.Settlement{
		Key: req.Key, Owner: "alice", Epoch: 1, State: dedupe.Done, Retention: time.Hour,
		Appends: []dedupe.Append{{Log: "l", Entry: []byte("x"), Keep: 3}}, Tokens: 1,
	}
	settle := func(what string, want dedupe.SettleVerdict, wrote string) {
		t.Helper()
		if got, err := m.Settle(t.Context(), end); err != nil || got != want {
			t.Fatalf("%s: %v, %v", what, got, err)
		}
		writes(what, wrote)
	}
	end.Owner = "bob"
	settle("a settlement of another", dedupe.Superseded, "")
	end.Owner, end.Frees = "alice", dedupe.EffectKey{Print: [32]byte{2}, Window: time.Hour}
	settle("a settlement that frees what it does not hold", dedupe.Settled, "log record tally")
	settle("a settlement that is said again", dedupe.Settled, "record as it is")
	end.Frees = req.EffectKey
	settle("a settlement that frees its effect", dedupe.Settled, "effect record as it is")
	settle("one that freed it before", dedupe.Settled, "record as it is")
	admit("a replay", other, dedupe.Replay, "")
	renew("a renewal of what is done", false, "")
	if _, err := m.Note(t.Context(), dedupe.Note{Key: req.Key, Appends: end.Appends, Retention: time.Hour}); err != nil {
		t.Error(err)
	}
	writes("a note of what is done", "")
	renewal.Key.ID = "forgotten"
	renew("a restoration", true, "effect record tally")
}
