package dedupe

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of the charges of a claim.
const (
	// MaxCharges bounds their number.
	MaxCharges = 16
	// MaxCounterBytes bounds the name of a counter.
	MaxCounterBytes = 128
	// MaxAmount bounds what one adds: the sums stay exact in every store.
	MaxAmount = 1 << 30
)

// Charge is what a claim has added to a counter. It stands in the record, so that
// whoever finds out that the call did not run can give it back.
type Charge struct {
	// Counter names the counter; a claim charges each once at the most.
	Counter string
	// Amount is what was added; 1 to MaxAmount.
	Amount int64
}

// Refund says which charges a record gives back when it becomes next, in the
// step that stores next. Charges stand from the claim on, as long as the call may
// have run under it:
//
//	CLAIMED, UNKNOWN → NOT_RUN     its own: by its owner, or by a resolution
//	CLAIMED → CLAIMED, epoch+1     the earlier claim's: the later one has been charged for itself
//	NOT_RUN → CLAIMED              none: they were given back before
//	everything else                none
//
// What a record charges is the same, seen from the other end: next.Refund(r). It
// is the request's when a call is claimed; and when a call that was taken for
// NOT_RUN turns out to have run, or may have, its own once more.
func (r Record) Refund(next Record) []Charge {
	if !r.charged() || next.charged() && next.Owner == r.Owner && next.Epoch == r.Epoch {
		return nil
	}
	return r.Charges
}

// charged reports whether the charges of a record stand.
func (r *Record) charged() bool { return r.State == Claimed || r.State == Done || r.State == Unknown }

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

var ceilingNames = []string{ //nolint:gosec // tokens of a language model, no credentials
	NoCeiling: "none", CallsCeiling: "calls", TokensCeiling: "tokens", AgeCeiling: "age", TokensShrank: "tokens_shrank",
}

// String returns none, calls, tokens, age or tokens_shrank.
func (c Ceiling) String() string { return named("ceiling", ceilingNames, c) }

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

// Moves returns what the transition from r to next adds to counters, each named once:
// the charges of Refund in both directions.
func (r Record) Moves(next Record) []Charge {
	back, moves := r.Refund(next), next.Refund(r)
	if len(back) > 0 {
		moves = slices.Clone(moves)
	}
	for _, c := range back {
		if i := slices.IndexFunc(moves, func(m Charge) bool { return m.Counter == c.Counter }); i >= 0 {
			moves[i].Amount -= c.Amount
		} else {
			moves = append(moves, Charge{c.Counter, -c.Amount})
		}
	}
	return moves
}

// Bill applies the draw of a request to its tally, when the state machine makes a new
// claim of a record. What the claim adds to its calls, less what the claim before it gives
// back, is still to be added. exceeded is the answer when a ceiling stands in the way:
// then nothing may be stored, and the tally, with the tokens that were reported, is only
// to be told.
func (r Record) Bill(req *Request, next Record, verdict Verdict, t Tally, now time.Time) (after Tally, exceeded *Admission) {
	if verdict != Won || next.Epoch == r.Epoch {
		return t, nil
	}
	d, after, ceiling, add := &req.Draw, t, NoCeiling, int64(0)
	for _, m := range r.Moves(next) {
		if m.Counter == d.Counter {
			add = m.Amount
		}
	}
	if d.Tokens > t.Reported {
		after.Reported, after.Estimated = d.Tokens, 0
	}
	switch {
	case d.Tokens > 0 && d.Tokens < t.Reported:
		ceiling = TokensShrank
	case d.MaxAge > 0 && !t.StartedAt.IsZero() && now.Sub(t.StartedAt) > d.MaxAge:
		ceiling = AgeCeiling
	case d.MaxTokens > 0 && after.Tokens() >= d.MaxTokens:
		ceiling = TokensCeiling
	case d.MaxCalls > 0 && add > 0 && t.Calls+add > d.MaxCalls:
		ceiling = CallsCeiling
	default:
		return after.Add(0, now), nil
	}
	return t, &Admission{Verdict: Exceeded, Tally: after, Ceiling: ceiling}
}

func (d *Draw) validate() error {
	if *d == (Draw{}) {
		return nil
	}
	return cmp.Or(
		validateCounter(d.Counter),
		between("tokens that are used", d.Tokens, 0, MaxTokens),
		between("a ceiling of calls", d.MaxCalls, 0, math.MaxInt64),
		between("a ceiling of tokens", d.MaxTokens, 0, math.MaxInt64),
		between("a ceiling of time", d.MaxAge, 0, longest))
}

func validateCounter(name string) error {
	return between("bytes of the name of a counter", len(name), 1, MaxCounterBytes)
}

func validateCharges(charges []Charge, most int64) error {
	err := between("charges", len(charges), 0, MaxCharges)
	for i, c := range charges {
		err = cmp.Or(err, validateCounter(c.Counter), between("a charge", c.Amount, 1, most))
		if slices.ContainsFunc(charges[:i], func(other Charge) bool { return other.Counter == c.Counter }) {
			err = cmp.Or(err, fmt.Errorf("%w: %q is charged twice", ErrInvalid, c.Counter))
		}
	}
	return err
}

// encode returns a tally as it stands on its sheet: one line, for whoever looks at it, of
// its calls, its tokens reported and estimated, and its start in milliseconds since 1970.
func (t Tally) encode() string {
	b := make([]byte, 0, 64)
	for _, n := range [...]int64{t.Calls, t.Reported, t.Estimated, Millis(t.StartedAt)} {
		b = append(strconv.AppendInt(b, n, 10), ' ')
	}
	return string(b[:len(b)-1])
}

// decodeTally reads a tally; the zero one when there is none.
func decodeTally(line string) (Tally, error) {
	if line == "" {
		return Tally{}, nil
	}
	var n [4]int64
	rest := line
	for i := range n {
		part, behind, more := strings.Cut(rest, " ")
		number, err := strconv.ParseInt(part, 10, 64)
		if err != nil || number < 0 || more != (i+1 < len(n)) {
			return Tally{}, fmt.Errorf("%w: the tally of a prompt is %q", ErrCorrupt, line)
		}
		n[i], rest = number, behind
	}
	return Tally{Calls: n[0], Reported: n[1], Estimated: n[2], StartedAt: Instant(n[3])}, nil
}
