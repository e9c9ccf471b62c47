package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// Bid implements dedupe.Tenures. With WaitReplicas a tenure counts when they have
// it: a failover forgets none that its holder relies on. Its key is in whatever slot it
// falls; no request for a call touches it.
func (s *Store) Bid(ctx context.Context, bid dedupe.Bid) (before, after dedupe.Tenure, err error) {
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

// keptTenure is a tenure as it stands in its row, in JSON, for whoever looks at it.
type keptTenure struct {
	dedupe.Tenure

	Left int64 `json:"left"` // in how many milliseconds after it was written it ends; 0: it is given up
}

func encodeTenure(t dedupe.Tenure, now time.Time) text {
	kept := keptTenure{Tenure: t}
	if !t.Until.IsZero() {
		kept.Left = t.Until.Sub(now).Milliseconds()
	}
	b, _ := json.Marshal(kept) // texts and numbers always can be
	return b
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
	var kept keptTenure
	if err = json.Unmarshal([]byte(text), &kept); err != nil || kept.Token == "" || min(kept.Number, kept.Renewals, kept.Left) < 0 {
		return dedupe.Tenure{}, fmt.Errorf("%w: the tenure of an instance is %q", dedupe.ErrCorrupt, text)
	}
	if kept.Left > 0 {
		kept.Until = at.Add(time.Duration(kept.Left) * time.Millisecond)
	}
	return kept.Tenure, nil
}
