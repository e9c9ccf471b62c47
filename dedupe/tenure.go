package dedupe

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Tenure is what a store says of an instance: which incarnation of it is alive.
type Tenure struct {
	// Number is that of the incarnation, which its claims name: higher than those of all before
	// it, also when the store has lost what it knew of them.
	Number   int64  `json:"number"`
	Token    string `json:"token"`    // the process; no two have the same one
	Renewals int64  `json:"renewals"` // since its holder took it
	// Until is when it ends unless it is renewed, by the store's clock; zero once given up.
	Until time.Time `json:"-"`
	Who   Who       `json:"who"`
}

// Bid asks for a tenure, or for more of it.
type Bid struct {
	Instance string
	Token    string
	Who      Who
	Number   int64 // of the incarnation that the bidder is; 0: none yet
	// TTL is how long the tenure lasts without a renewal, Keep how long it is remembered.
	TTL, Keep time.Duration
	// Gone, when its Token is not empty, is the tenure of a process that the bidder knows to be
	// gone, or not to have renewed it for a TTL. It is over unless it has been renewed since.
	Gone Tenure
	// Looks takes nothing over for its time alone, only what was given up or is Gone: where
	// everything stood still for a while, a holder that lives renews it now.
	Looks   bool
	Resigns bool // gives the tenure up: what its holder claimed may be decided
}

// Tenures is a Store that keeps tenures.
type Tenures interface {
	// Bid applies a bid, in one round trip, and returns the tenure before it and after it.
	// Asking again is safe, also when the answer was lost.
	Bid(ctx context.Context, bid Bid) (before, after Tenure, err error)
}

// Bid applies a bid to a tenure at an instant of the store's clock. The zero tenure is none.
//
//	tenure              bidder                       →
//	none                anyone                       the bidder's; one that has a number keeps it
//	its own             its holder                   renewed; or given up
//	another's           who had it before            as it is: another has succeeded the bidder
//	another's, over     who has none yet             the bidder's, with a higher number
//	another's           who has none yet             as it is
//
// A tenure is over when it was given up, when its time has passed (to who does not only look), or
// when it is Bid.Gone.
func (t Tenure) Bid(bid Bid, now time.Time) Tenure {
	next := Tenure{Token: bid.Token, Until: now.Add(bid.TTL), Who: bid.Who}
	if bid.Resigns {
		next.Until = time.Time{}
	}
	switch {
	case t.Token == "":
		next.Number = cmp.Or(bid.Number, Millis(now))
	case t.Token == bid.Token:
		next.Number, next.Renewals = t.Number, t.Renewals+1
	case bid.Number != 0 || bid.Resigns || !t.over(bid, now):
		return t
	default:
		// By the clock, so that it is higher even if the one before it is forgotten.
		next.Number = max(t.Number+1, Millis(now))
	}
	return next
}

func (t Tenure) over(bid Bid, now time.Time) bool {
	return t.Until.IsZero() || !bid.Looks && !now.Before(t.Until) || bid.Gone.Token == t.Token && bid.Gone.Renewals == t.Renewals
}

// An instance is a sidecar as its operator knows it, an incarnation one process of it. One
// incarnation is alive at a time. The owner of a claim says of which it is:
//
//	@instance@number.whatever tells the calls of the process apart
//
// So a later incarnation knows that the owner is gone, and does not wait for its lease. An owner
// that begins with anything else is nobody's predecessor.
const ownerMark = "@"

// MaxInstanceBytes bounds the name of an instance.
const MaxInstanceBytes = 200

func ownerOf(instance string, number int64) string {
	return ownerMark + ownerEscaper.Replace(instance) + ownerMark + strconv.FormatInt(number, 10) + "."
}

// No two instances have owners that begin alike, whatever is in their names.
var ownerEscaper = strings.NewReplacer("%", "%25", ownerMark, "%40")

func incarnationOf(owner string) (instance string, number int64, ok bool) {
	rest, marked := strings.CutPrefix(owner, ownerMark)
	instance, rest, named := strings.Cut(rest, ownerMark)
	digits, _, dotted := strings.Cut(rest, ".")
	number, err := strconv.ParseInt(digits, 10, 64)
	return instance, number, marked && named && dotted && err == nil && digits[0] != '+' && digits[0] != '-'
}

// succeeds reports that an owner is of a later incarnation than another, of the same instance: the
// other's process is gone, or may do nothing any more.
func succeeds(owner, other string) bool {
	instance, number, ok := incarnationOf(owner)
	of, earlier, known := incarnationOf(other)
	return ok && known && instance == of && number > earlier
}

// Who tells of a process, to others that would be the same instance.
type Who struct {
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	Since time.Time `json:"since"` // when it started, by its own clock
	// World tells processes of one PID apart that are of different machines, boots or
	// containers, Start those that had the PID one after the other; empty: nobody can say.
	World string `json:"world,omitempty"`
	Start string `json:"start,omitempty"`
}

// String says it in the words of a log line.
func (w Who) String() string {
	if w.PID == 0 {
		return "a process that does not say which"
	}
	return fmt.Sprintf("host %s, pid %d, since %s", w.Host, w.PID, w.Since.UTC().Format(time.RFC3339))
}

// RivalError is why a process ends, or does not start: another runs as the same instance.
type RivalError struct {
	Instance string
	Other    Who
}

// Error names the other process, and what to do about it.
func (e *RivalError) Error() string {
	return fmt.Sprintf("another process runs as instance %q (%v): set `instance` to a name that no other sidecar on this store has", e.Instance, e.Other)
}
