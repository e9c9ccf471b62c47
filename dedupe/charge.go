package dedupe

import (
	"fmt"
	"slices"
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
func (r Record) charged() bool { return r.State == Claimed || r.State == Done || r.State == Unknown }

func validateCharges(charges []Charge, most int64) error {
	if len(charges) > MaxCharges {
		return fmt.Errorf("%w: %d charges, want at most %d", ErrInvalid, len(charges), MaxCharges)
	}
	for i, c := range charges {
		switch {
		case c.Counter == "" || len(c.Counter) > MaxCounterBytes:
			return fmt.Errorf("%w: the name of a counter has %d bytes, want 1 to %d", ErrInvalid, len(c.Counter), MaxCounterBytes)
		case c.Amount < 1 || c.Amount > most:
			return fmt.Errorf("%w: a charge of %d to %q, want 1 to %d", ErrInvalid, c.Amount, c.Counter, most)
		case slices.ContainsFunc(charges[:i], func(other Charge) bool { return other.Counter == c.Counter }):
			return fmt.Errorf("%w: %q is charged twice", ErrInvalid, c.Counter)
		}
	}
	return nil
}
