package dedupe

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

var payment = EffectKey{Print: [32]byte{7}, Window: time.Hour}

// pays is a request under an id of its own for the same effect.
func pays(id string) Request {
	r := asks("owner of "+id, tool.NonIdempotent)
	r.Key = tool.CallID{Conversation: "c-1", ID: id}
	r.EffectKey = payment
	return r
}

func TestAnEffectIsWithinItsWindowUntilItsEnd(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1e12)
	req := pays("b")
	for name, record := range map[string]Record{
		"done":              {State: Done, FinishedAt: now},
		"unknown":           {State: Unknown, FinishedAt: now},
		"keyed, may repeat": {State: NotRun, Effect: tool.Keyed, Attempts: 1, FinishedAt: now},
		"claim, lease out":  {State: Claimed, LeaseUntil: now},
	} {
		if record.hinders(&req, now.Add(payment.Window-time.Millisecond)) == 0 {
			t.Errorf("%s: does not count right before the end of its window", name)
		}
		if got := record.hinders(&req, now.Add(payment.Window)); got != 0 {
			t.Errorf("%s: %v after its window", name, got)
		}
	}
}

// The stricter of what a tool was and is decides what is harmless.
func TestAnEffectOfAToolDeclaredAnew(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1e12)
	for _, c := range []struct {
		was, is tool.Effect
		want    Verdict
	}{
		{tool.Idempotent, tool.Idempotent, 0},
		{tool.ReadOnly, tool.Idempotent, 0},
		{tool.Idempotent, tool.Keyed, EffectUnknown},
		{tool.Idempotent, tool.NonIdempotent, EffectUnknown},
		{tool.Keyed, tool.Idempotent, EffectUnknown},
		{tool.NonIdempotent, tool.Idempotent, 0}, // it settles as NOT_RUN on proof alone
	} {
		req := pays("b")
		req.Effect = c.is
		again := Record{State: NotRun, Effect: c.was, Attempts: 1, FinishedAt: now}
		if got := again.hinders(&req, now); got != c.want {
			t.Errorf("%v, now %v, not run: %v, want %v", c.was, c.is, got, c.want)
		}
		reopened := Record{State: NotRun, Effect: c.was, Epoch: 2, FinishedAt: now}
		if got := reopened.hinders(&req, now); got != c.want {
			t.Errorf("%v, now %v, not run in its second epoch: %v, want %v", c.was, c.is, got, c.want)
		}
	}
}

func TestWhichEarlierCallIsTold(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1e12)
	held := func(id string, state State, ended time.Duration) Listed {
		return Listed{Key: tool.CallID{ID: id}, Record: Record{State: state, FinishedAt: now.Add(ended), LeaseUntil: now.Add(time.Minute), Owner: "x"}}
	}
	req := pays("new")
	refusal, _ := Contend(&req, []Listed{
		held("unknown", Unknown, 0), held("at work", Claimed, 0), held("done first", Done, -time.Minute), held("done last", Done, 0), {Key: tool.CallID{ID: "gone"}},
	}, now)
	if refusal == nil || refusal.Verdict != DuplicateEffect || refusal.Earlier.ID != "done last" {
		t.Errorf("got %+v, want what was done last", refusal)
	}
	refusal, _ = Contend(&req, []Listed{held("unknown", Unknown, 0), held("at work", Claimed, 0), held("also", Claimed, 0)}, now)
	if refusal == nil || refusal.Verdict != EffectInFlight || refusal.Earlier.ID != "at work" {
		t.Errorf("got %+v, want the newest that is at work", refusal)
	}
	req.EffectKey.Allow = true
	_, holds := Contend(&req, []Listed{held("unknown", Unknown, 0), held("done first", Done, -time.Minute), held("done last", Done, 0), held("not run", NotRun, 0), {Key: req.Key}}, now)
	if got := fmt.Sprint(holds); got != fmt.Sprint([]tool.CallID{req.Key, {ID: "unknown"}, {ID: "done last"}}) {
		t.Errorf("held by %v", got)
	}
}

// A further round of a request goes on with what one before it began, and no other call does; that one holds
// the effect still.
func TestTheRoundsOfARequestHaveOneEffect(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1e12)
	a := tool.CallID{Conversation: "c-1", ID: "a"}
	round := pays("a#2")
	round.After = []tool.CallID{a}
	for key, want := range map[tool.CallID]bool{
		a:                                true,
		{Conversation: "c-1", ID: "a#1"}: false,
		{Conversation: "c-2", ID: "a"}:   false,
	} {
		done := Listed{Key: key, Record: Record{State: Done, FinishedAt: now}}
		refusal, holds := Contend(&round, []Listed{done}, now)
		if (refusal == nil) != want {
			t.Errorf("after %v: %+v", key, refusal)
		}
		if want && !slices.Contains(holds, key) {
			t.Errorf("%v holds its effect no more: %v", key, holds)
		}
		first := pays("c")
		if refusal, _ := Contend(&first, []Listed{done}, now); refusal == nil {
			t.Errorf("a call that is no round, after %v: it may run", key)
		}
	}
	lost := Listed{Key: a, Record: Record{State: Unknown, FinishedAt: now}}
	if refusal, _ := Contend(&round, []Listed{lost}, now); refusal == nil {
		t.Error("after a round that nobody knows of it may run")
	}
}

func TestTaken(t *testing.T) {
	t.Parallel()
	a, b := tool.CallID{ID: "a"}, tool.CallID{ID: "b"}
	if got := fmt.Sprint(Taken([]tool.CallID{a}, b), Taken([]tool.CallID{a, b}, b)); got != fmt.Sprint([]tool.CallID{b, a}, []tool.CallID{a, b}) {
		t.Errorf("got %v", got)
	}
	if got := Taken(make([]tool.CallID, MaxHolders), b); len(got) != MaxHolders || got[0] != b {
		t.Errorf("too many hold it: %v", got)
	}
}

func TestEffectsThatNoStoreTakes(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Request){
		"no window":                  func(r *Request) { r.EffectKey.Window = 0 },
		"longer than the retention":  func(r *Request) { r.EffectKey.Window = r.Retention + 1 },
		"of no conversation":         func(r *Request) { r.Key.Conversation = "" },
		"allowed, and no effect key": func(r *Request) { r.EffectKey = EffectKey{Allow: true} },
	} {
		r := pays("x")
		r.Retention = 2 * time.Hour
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		if change(&r); !errors.Is(r.Validate(), ErrInvalid) {
			t.Errorf("%s: accepted", name)
		}
	}
	s := settles("x", 1, Unknown)
	if s.Frees = payment; !errors.Is(s.Validate(), ErrInvalid) {
		t.Error("an unknown outcome frees an effect")
	}
}
