package dedupe

import (
	"cmp"
	"context"
	"math"
	"time"
)

// Tenure is what a store says of an instance: which incarnation of it is alive.
// It lasts as long as its holder renews it.
type Tenure struct {
	// Number is that of the incarnation, which its claims name: higher than those
	// of all before it, also when the store has lost what it knew of them.
	Number int64
	// Token is the process; no two have the same one.
	Token string
	// Renewals counts what its holder has said since it took the tenure.
	Renewals int64
	// Until is when it ends unless it is renewed, by the store's clock; zero once
	// it was given up.
	Until time.Time
	// Who tells of the process; see Who.
	Who string
}

// Bid asks for a tenure, or for more of it.
type Bid struct {
	Instance   string
	Token, Who string
	// Number is that of the incarnation that the bidder is; 0: none yet.
	Number int64
	// TTL is how long the tenure lasts without a renewal, Keep how long it is
	// remembered; both at least 1 ms.
	TTL, Keep time.Duration
	// Gone, when its Token is not empty, is the tenure of a process that the bidder
	// knows to be gone, or not to have renewed it for a TTL: it is over, whatever
	// the store's clock says, unless it has been renewed since.
	Gone Tenure
	// Looks takes nothing over for its time alone, only what was given up or is Gone:
	// where everything stood still for a while, a holder that lives renews it now.
	Looks bool
	// Resigns gives the tenure up: what its holder claimed may be decided.
	Resigns bool
}

// Standing is the answer to a Bid.
type Standing uint8

const (
	// Founded: the store knew of no tenure, and now of the bidder's.
	Founded Standing = iota + 1
	// Holding: it is the bidder's, and was before.
	Holding
	// Succeeded: another's was over, and now it is the bidder's.
	Succeeded
	// Occupied: it is another's, and stays that. To an incarnation that had it
	// before this is the end: another has succeeded it.
	Occupied
)

// Tenures is a Store that keeps tenures.
type Tenures interface {
	// Bid applies a bid, in one round trip, and returns the tenure before it and
	// after it. Asking again is safe, also when the answer was lost.
	Bid(ctx context.Context, bid Bid) (before, after Tenure, standing Standing, err error)
}

// Bid applies a bid to a tenure at an instant of the store's clock. The zero
// tenure is one that the store knows nothing of.
//
//	tenure              bidder                       →
//	none                anyone                       Founded; one that has a number keeps it
//	its own             its holder                   Holding, renewed; or given up
//	another's           who had it before            Occupied
//	another's, over     who has none yet             Succeeded, with a higher number
//	another's           who has none yet             Occupied
//
// A tenure is over when it was given up, when its time has passed (to who does not
// only look), or when the bidder says so of the very tenure that is there (Bid.Gone).
func (t Tenure) Bid(bid Bid, now time.Time) (next Tenure, standing Standing) {
	next = Tenure{Number: bid.Number, Token: bid.Token, Until: now.Add(bid.TTL), Who: bid.Who}
	if bid.Resigns {
		next.Until = time.Time{}
	}
	switch {
	case t.Token == "":
		if next.Number == 0 {
			next.Number = Millis(now)
		}
		return next, Founded
	case t.Token == bid.Token:
		next.Number, next.Renewals = t.Number, t.Renewals+1
		return next, Holding
	case bid.Number != 0 || bid.Resigns || !t.over(bid, now):
		return t, Occupied
	default:
		// By the clock, so that it is higher even if the one before it is forgotten.
		next.Number = max(t.Number+1, Millis(now))
		return next, Succeeded
	}
}

func (t Tenure) over(bid Bid, now time.Time) bool {
	return t.Until.IsZero() || !bid.Looks && !now.Before(t.Until) || bid.Gone.Token == t.Token && bid.Gone.Renewals == t.Renewals
}

// Validate reports what a store cannot accept; the error wraps ErrInvalid.
func (b *Bid) Validate() error {
	return cmp.Or(
		between("bytes of the name of an instance", len(b.Instance), 1, MaxInstanceBytes),
		between("bytes of a token", len(b.Token), 1, MaxNameBytes),
		between("bytes of who bids", len(b.Who), 0, MaxNameBytes),
		between("the number of an incarnation", b.Number, 0, math.MaxInt64),
		between("a tenure", b.TTL, time.Millisecond, longest),
		between("the time that a tenure is remembered", b.Keep, b.TTL, longest))
}
