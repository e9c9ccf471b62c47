package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

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
	words := tenureScript.call([]string{tenureKey(s.options.KeyPrefix, bid.Instance)},
		bid.Token, bid.Number, bid.TTL.Milliseconds(), bid.Keep.Milliseconds(), bid.Gone.Token, bid.Gone.Renewals, bid.Resigns, bid.Who, bid.Looks)
	err = s.run(ctx, tenureScript, words, 0, func(reply any) (durable bool, err error) {
		before, after, standing, err = decodeBid(reply)
		return standing == dedupe.Occupied, err
	})
	if err != nil {
		return dedupe.Tenure{}, dedupe.Tenure{}, 0, err
	}
	return before, after, standing, nil
}

// decodeBid reads the reply of tenure.lua.
func decodeBid(reply any) (before, after dedupe.Tenure, standing dedupe.Standing, err error) {
	fields, ok := reply.([]any)
	if !ok || len(fields) < 2 {
		return before, after, 0, unexpected(reply)
	}
	n, isNumber := fields[0].(int64)
	text, isText := fields[1].(string)
	if standing = dedupe.Standing(n); !isNumber || !isText || standing < dedupe.Founded || standing > dedupe.Occupied {
		return before, after, 0, unexpected(reply)
	}
	if after, err = decodeTenure(text); err == nil && len(fields) > 2 {
		if text, known := fields[2].(string); known {
			before, err = decodeTenure(text)
		}
	}
	return before, after, standing, err
}

// decodeTenure reads a tenure as the script stores it.
func decodeTenure(text string) (dedupe.Tenure, error) {
	words := strings.SplitN(text, " ", 5)
	if len(words) != 5 {
		return dedupe.Tenure{}, fmt.Errorf("%w: the tenure of an instance is %q", dedupe.ErrCorrupt, text)
	}
	var numbers [3]int64
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.ParseInt(words[i], 10, 64); err != nil {
			return dedupe.Tenure{}, fmt.Errorf("%w: the tenure of an instance is %q", dedupe.ErrCorrupt, text)
		}
	}
	return dedupe.Tenure{
		Number: numbers[0], Renewals: numbers[1], Until: dedupe.Instant(numbers[2]), Token: words[3], Who: words[4],
	}, nil
}
