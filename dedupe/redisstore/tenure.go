package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sidecall/sidecall/dedupe"
)

var _ dedupe.Tenures = (*Store)(nil)

// Bid implements dedupe.Tenures. With WaitReplicas a tenure counts when they have
// it: a failover forgets none that its holder relies on. Its key is in whatever slot it
// falls; no request for a call touches it.
func (s *Store) Bid(ctx context.Context, bid dedupe.Bid) (before, after dedupe.Tenure, standing dedupe.Standing, err error) {
	if err := bid.Validate(); err != nil {
		return before, after, 0, err
	}
	b := &bidding{key: string(appendKey(nil, s.options.KeyPrefix, "instance/", 0, bid.Instance)), bid: bid}
	if err := s.run(ctx, b.key, b, 0); err != nil {
		return before, after, 0, err
	}
	return b.before, b.after, b.standing, nil
}

// bidding is the step of a bid.
type bidding struct {
	key           string
	bid           dedupe.Bid
	before, after dedupe.Tenure
	standing      dedupe.Standing
}

func (b *bidding) Binds() bool { return b.standing != dedupe.Occupied }

func (b *bidding) Apply(of dedupe.Rows) (err error) {
	r := of.(*rows)
	at := r.at([]byte(b.key))
	if b.before, err = decodeTenure(r.read[at].text); err != nil {
		return err
	}
	if b.after, b.standing = b.before.Bid(b.bid, r.now); b.standing == dedupe.Occupied {
		return nil
	}
	r.write('T', at, b.bid.Keep.Milliseconds(), encodeTenure(b.after, r.now))
	r.heard = func(at time.Time, _ []string) {
		if !b.after.Until.IsZero() {
			b.after.Until = at.Add(b.after.Until.Sub(r.now))
		}
	}
	return nil
}

// encodeTenure returns a tenure as one line, for whoever looks at it: its number, its
// renewals, how many milliseconds after it was written it ends (0: it is given up), its
// token, and who holds it.
func encodeTenure(t dedupe.Tenure, now time.Time) text {
	left := int64(0)
	if !t.Until.IsZero() {
		left = t.Until.Sub(now).Milliseconds()
	}
	return fmt.Appendf(nil, "%d %d %d %s %s", t.Number, t.Renewals, left, t.Token, t.Who)
}

// decodeTenure reads a tenure; the zero one when there is none.
func decodeTenure(row string) (dedupe.Tenure, error) {
	if row == "" {
		return dedupe.Tenure{}, nil
	}
	text, at, err := stampOf(row)
	if err != nil {
		return dedupe.Tenure{}, err
	}
	words := strings.SplitN(text, " ", 5)
	sound := len(words) == 5 && !strings.ContainsFunc(words[3], strange)
	var numbers [3]uint64
	for i := 0; sound && i < len(numbers); i++ {
		numbers[i], err = strconv.ParseUint(words[i], 10, 63)
		sound = err == nil
	}
	if !sound {
		return dedupe.Tenure{}, fmt.Errorf("%w: the tenure of an instance is %q", dedupe.ErrCorrupt, text)
	}
	tenure := dedupe.Tenure{Number: int64(numbers[0]), Renewals: int64(numbers[1]), Token: words[3], Who: words[4]}
	if numbers[2] > 0 {
		tenure.Until = at.Add(time.Duration(numbers[2]) * time.Millisecond)
	}
	return tenure, nil
}

// strange reports what is in no token.
func strange(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
