package redisstore

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/sidecall/sidecall/dedupe"
)

// Bid implements dedupe.Tenures. With WaitReplicas a tenure counts when they have
// it: a failover forgets none that its holder relies on. Its key is in whatever slot it
// falls; no request for a call touches it.
func (s *Store) Bid(ctx context.Context, bid dedupe.Bid) (before, after dedupe.Tenure, err error) {
	if err := bid.Validate(); err != nil {
		return before, after, err
	}
	key := appendKey(nil, s.options.KeyPrefix, "instance/", nowhere, bid.Instance)
	var was, is dedupe.Tenure
	var step *dedupe.Step
	step = own(0, func(r *rows) {
		var err error
		at := r.at(key)
		was, err = decodeTenure(r.read[at].text)
		r.Fail(err)
		is = was.Bid(bid, r.now)
		if step.Binds = is.Token == bid.Token; step.Binds {
			r.write('T', at, bid.Keep.Milliseconds(), encodeTenure(is, r.now))
			r.heard = func(at time.Time, _ []string) {
				if !is.Until.IsZero() {
					is.Until = at.Add(is.Until.Sub(r.now))
				}
			}
		}
	})
	if err := s.run(ctx, string(key), step); err != nil {
		return before, after, err // it may still be decided
	}
	return was, is, nil
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
	var t dedupe.Tenure
	var left int64
	_, err = fmt.Sscanf(text, "%d %d %d %s", &t.Number, &t.Renewals, &left, &t.Token)
	words := strings.SplitN(text, " ", 5)
	strange := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) } // is in no token
	if err != nil || len(words) < 5 || min(t.Number, t.Renewals, left) < 0 || strings.ContainsFunc(t.Token, strange) {
		return dedupe.Tenure{}, fmt.Errorf("%w: the tenure of an instance is %q", dedupe.ErrCorrupt, text)
	}
	if t.Who = words[4]; left > 0 {
		t.Until = at.Add(time.Duration(left) * time.Millisecond)
	}
	return t, nil
}
