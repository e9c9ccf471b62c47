package dedupe

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxCounterBytes bounds the name of a counter.
const MaxCounterBytes = 128

// MaxTokens bounds what may be reported or estimated at once, and a tally's estimate.
const MaxTokens = 1 << 50

// Tally is what a prompt has used. It belongs to its tenant and conversation, and is forgotten
// after the retention of the last request that changed it.
type Tally struct {
	Calls int64 // that were claimed, less what was given back
	// Reported is the most tokens that the loop has said it has spent, Estimated those of the
	// outputs since then.
	Reported, Estimated int64
	StartedAt           time.Time // when the first one was; zero when none ever was
}

// Tokens is what the prompt has spent as far as is known.
func (t Tally) Tokens() int64 { return t.Reported + t.Estimated }

// Draw counts the claim of a call in a tally, within ceilings. 0 is no ceiling.
type Draw struct {
	Counter string // names the tally; empty for none
	Tokens  int64  // what the loop says it has spent so far; 0 says nothing
	// MaxCalls and MaxTokens are what may be used up. The call that crosses MaxTokens has run:
	// how much it says is known afterwards.
	MaxCalls, MaxTokens int64
	MaxAge              time.Duration // how long after its start a prompt may make calls
}

// Ceiling is what stands in the way of a request.
type Ceiling uint8

const (
	NoCeiling     Ceiling = iota
	CallsCeiling          // Draw.MaxCalls
	TokensCeiling         // Draw.MaxTokens
	AgeCeiling            // Draw.MaxAge
	TokensShrank          // Draw.Tokens is less than what was said before
)

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

// Moves says, of the transition from r to next, which counter gets a call back, and which counts
// one. A call counts from its claim on, as long as it may have run under it:
//
//	absent, NOT_RUN → CLAIMED      counts: the request's
//	CLAIMED, UNKNOWN → NOT_RUN     gets back: by its owner, or by a resolution; likewise CLAIMED → HELD
//	CLAIMED → CLAIMED, epoch+1     gets back: the earlier claim's; counts: the request's
//	NOT_RUN → DONE, UNKNOWN        counts once more: it was taken for NOT_RUN, and has run, or may have
//	CLAIMED → DONE, of another     gets back: the claim's, which has lost it; counts: the other's
//	absent → what its owner says   counts: the claim's
//	everything else                none
func (r Record) Moves(next Record) (back, made string) {
	if r.State.counts() && next.State.counts() && next.Owner == r.Owner && next.Epoch == r.Epoch {
		return "", ""
	}
	if r.State.counts() {
		back = r.Counter
	}
	if next.State.counts() {
		made = next.Counter
	}
	return back, made
}

func (s State) counts() bool { return s == Claimed || s == Done || s == Unknown }

// Bill applies a draw to its tally, when the state machine makes a new claim of a
// record, which is still to be counted. exceeded is the answer when a ceiling stands in the way:
// then nothing may be stored.
func (d *Draw) Bill(r, next Record, verdict Verdict, t Tally, now time.Time) (after Tally, exceeded *Admission) {
	if verdict != Won || next.Epoch == r.Epoch {
		return t, nil
	}
	after = t
	back, made := r.Moves(next)
	var ceiling Ceiling
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
	case d.MaxCalls > 0 && back != made && t.Calls+1 > d.MaxCalls:
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
		between("bytes of the name of a counter", len(d.Counter), 1, MaxCounterBytes),
		between("tokens that are used", d.Tokens, 0, MaxTokens))
}

// encode returns a tally as it stands in its value: one line of its calls, its tokens reported
// and estimated, and its start in milliseconds since 1970.
func (t Tally) encode() string {
	b := make([]byte, 0, 64)
	for _, n := range [...]int64{t.Calls, t.Reported, t.Estimated, Millis(t.StartedAt)} {
		b = append(strconv.AppendInt(b, n, 10), ' ')
	}
	return string(b[:len(b)-1])
}

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
