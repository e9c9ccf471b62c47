package dedupe

import (
	"fmt"
	"math"
	"time"
)

// Tally is what a prompt has used: the counter that charges name. Each belongs to
// its tenant and conversation, and is forgotten after the retention of the last
// request that changed it.
type Tally struct {
	// Calls are those charged, less what was given back.
	Calls int64
	// Reported is the most tokens that the loop has said it has spent.
	Reported int64
	// Estimated are the tokens of the outputs since then, which it could not know
	// of yet.
	Estimated int64
	// StartedAt is when it was first charged, by the store's clock; zero when it
	// never was.
	StartedAt time.Time
}

// Tokens is what the prompt has spent as far as is known.
func (t Tally) Tokens() int64 { return t.Reported + t.Estimated }

// Draw asks for a claim's charge within ceilings; it is checked in the step that
// claims. 0 is no ceiling.
type Draw struct {
	// Counter is the one that has ceilings, and that the admission tells of; empty
	// for none. The request charges it, or tells of its tokens alone.
	Counter string
	// Tokens is what the loop says it has spent so far; 0 says nothing.
	Tokens int64
	// MaxCalls and MaxTokens are what may be used up. The call that crosses
	// MaxTokens has run: how much it says is known afterwards.
	MaxCalls, MaxTokens int64
	// MaxAge is how long after its start a prompt may make calls.
	MaxAge time.Duration
}

// Ceiling is what stands in the way of a request.
type Ceiling uint8

const (
	// NoCeiling: nothing does.
	NoCeiling Ceiling = iota
	// CallsCeiling, TokensCeiling and AgeCeiling: Draw.MaxCalls, MaxTokens and MaxAge.
	CallsCeiling
	TokensCeiling
	AgeCeiling
	// TokensShrank: Draw.Tokens is less than what was said before.
	TokensShrank
)

var ceilingNames = [...]string{ //nolint:gosec // tokens of a language model, no credentials
	NoCeiling:     "none",
	CallsCeiling:  "calls",
	TokensCeiling: "tokens",
	AgeCeiling:    "age",
	TokensShrank:  "tokens_shrank",
}

// String returns none, calls, tokens, age or tokens_shrank.
func (c Ceiling) String() string {
	if int(c) < len(ceilingNames) {
		return ceilingNames[c]
	}
	return fmt.Sprintf("ceiling(%d)", uint8(c))
}

// Draw applies a draw to a tally at an instant of the store's clock. add is what
// the claim would add to its calls, less what the claim before it gives back; it is
// still to be added. With another ceiling than NoCeiling nothing may be claimed, and
// the tally, with the tokens that were reported, is only to be told.
func (t Tally) Draw(d Draw, add int64, now time.Time) (Tally, Ceiling) {
	if d.Tokens > 0 && d.Tokens < t.Reported {
		return t, TokensShrank
	}
	if d.Tokens > t.Reported {
		t.Reported, t.Estimated = d.Tokens, 0
	}
	switch {
	case d.MaxAge > 0 && !t.StartedAt.IsZero() && now.Sub(t.StartedAt) > d.MaxAge:
		return t, AgeCeiling
	case d.MaxTokens > 0 && t.Tokens() >= d.MaxTokens:
		return t, TokensCeiling
	case d.MaxCalls > 0 && add > 0 && t.Calls+add > d.MaxCalls:
		return t, CallsCeiling
	}
	return t.Add(0, now), NoCeiling
}

// Add changes the calls of a tally, which starts it; below 0 they do not fall.
func (t Tally) Add(calls int64, now time.Time) Tally {
	t.Calls = max(0, t.Calls+calls)
	if t.StartedAt.IsZero() {
		t.StartedAt = now
	}
	return t
}

// Spend adds tokens of an output to a tally.
func (t Tally) Spend(tokens int64) Tally {
	t.Estimated = min(t.Estimated+tokens, MaxTokens)
	return t
}

// MaxTokens bounds what may be reported or estimated at once, and a tally's
// estimate: what every store counts exactly.
const MaxTokens = 1 << 50

// Move is what a transition adds to a counter; below 0 it is given back.
type Move struct {
	Counter string
	Calls   int64
}

// Moves returns what the transition from r to next does to counters, each named
// once: the charges of Refund in both directions.
func (r Record) Moves(next Record) []Move {
	back, made := r.Refund(next), next.Refund(r)
	if len(back)+len(made) == 0 {
		return nil
	}
	moves := make([]Move, 0, len(back)+len(made))
	add := func(counter string, calls int64) {
		for i := range moves {
			if moves[i].Counter == counter {
				moves[i].Calls += calls
				return
			}
		}
		moves = append(moves, Move{counter, calls})
	}
	for _, c := range made {
		add(c.Counter, c.Amount)
	}
	for _, c := range back {
		add(c.Counter, -c.Amount)
	}
	return moves
}

// Sum returns what moves add to one counter.
func Sum(moves []Move, counter string) int64 {
	for _, m := range moves {
		if m.Counter == counter {
			return m.Calls
		}
	}
	return 0
}

// Bill says how the tally of a request's draw stands in the way of what the state
// machine makes of a record, which it does only of a new claim. exceeded is then
// the answer, and nothing may be stored.
func (r Record) Bill(req *Request, next Record, verdict Verdict, t Tally, now time.Time) (after Tally, exceeded *Admission) {
	if verdict != Won || next.Epoch == r.Epoch {
		return t, nil
	}
	after, ceiling := t.Draw(req.Draw, Sum(r.Moves(next), req.Draw.Counter), now)
	if ceiling == NoCeiling {
		return after, nil
	}
	return t, &Admission{Verdict: Exceeded, Tally: after, Ceiling: ceiling}
}

func (d Draw) validate() error {
	switch {
	case d == Draw{}:
		return nil
	case d.Counter == "" || len(d.Counter) > MaxCounterBytes:
		return fmt.Errorf("%w: the name of a counter has %d bytes, want 1 to %d", ErrInvalid, len(d.Counter), MaxCounterBytes)
	case d.Tokens < 0 || d.Tokens > MaxTokens:
		return fmt.Errorf("%w: %d tokens used, want 0 to %d", ErrInvalid, d.Tokens, int64(MaxTokens))
	case d.MaxCalls < 0 || d.MaxTokens < 0 || d.MaxAge < 0 || d.MaxAge > math.MaxInt64/2:
		return fmt.Errorf("%w: ceilings of %d calls, %d tokens and %v, want 0 or more", ErrInvalid, d.MaxCalls, d.MaxTokens, d.MaxAge)
	}
	return nil
}
