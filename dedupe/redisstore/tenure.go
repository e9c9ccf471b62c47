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

// tenureKey is the key of an instance's tenure: one of its own, in whatever slot
// it falls. No request for a call touches it.
func tenureKey(prefix, instance string) string {
	return string(appendComponent([]byte(prefix+"instance/"), instance))
}

// Bid implements dedupe.Tenures. With WaitReplicas a tenure counts when they have
// it: a failover forgets none that its holder relies on.
func (s *Store) Bid(ctx context.Context, bid dedupe.Bid) (before, after dedupe.Tenure, standing dedupe.Standing, err error) {
	if err := bid.Validate(); err != nil {
		return before, after, 0, err
	}
	b := &bidding{key: tenureKey(s.options.KeyPrefix, bid.Instance), bid: bid}
	if err := s.run(ctx, func() *command { return &command{key: b.key, step: b} }, func() bool { return b.standing == dedupe.Occupied }); err != nil {
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

func (b *bidding) Apply(of dedupe.Rows) (err error) {
	r := of.(*rows)
	if b.before, err = decodeTenure(r.get(b.key)); err != nil {
		return err
	}
	if b.after, b.standing = b.before.Bid(b.bid, r.now); b.standing != dedupe.Occupied {
		text := encodeTenure(b.after, r.now)
		r.write('t', b.key, b.bid.Keep.Milliseconds(), text)
		r.done = append(r.done, func(at time.Time) {
			if !b.after.Until.IsZero() {
				b.after.Until = at.Add(b.after.Until.Sub(r.now))
			}
			r.lane.expect(row{key: b.key, text: stamp(text, at)})
		})
	}
	return nil
}

// encodeTenure returns a tenure as one line, for whoever looks at it: its number, its
// renewals, how many milliseconds after it was written it ends (0: it is given up), its
// token, and who holds it.
func encodeTenure(t dedupe.Tenure, now time.Time) string {
	left := int64(0)
	if !t.Until.IsZero() {
		left = t.Until.Sub(now).Milliseconds()
	}
	return fmt.Sprintf("%d %d %d %s %s", t.Number, t.Renewals, left, t.Token, t.Who)
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
	if len(words) != 5 {
		return dedupe.Tenure{}, fmt.Errorf("%w: the tenure of an instance is %q", dedupe.ErrCorrupt, text)
	}
	var numbers [3]int64
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.ParseInt(words[i], 10, 64); err != nil || numbers[i] < 0 || strings.ContainsFunc(words[3], strange) {
			return dedupe.Tenure{}, fmt.Errorf("%w: the tenure of an instance is %q", dedupe.ErrCorrupt, text)
		}
	}
	tenure := dedupe.Tenure{Number: numbers[0], Renewals: numbers[1], Token: words[3], Who: words[4]}
	if numbers[2] > 0 {
		tenure.Until = at.Add(time.Duration(numbers[2]) * time.Millisecond)
	}
	return tenure, nil
}

// strange reports what is in no token.
func strange(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
