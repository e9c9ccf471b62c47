package memory

import (
	"context"

	"github.com/sidecall/sidecall/dedupe"
)

var _ dedupe.Tenures = (*Store)(nil)

// Bid implements dedupe.Tenures, for tests: two processes share no memory. It
// forgets no tenure, of which there are as many as instances.
func (s *Store) Bid(ctx context.Context, bid dedupe.Bid) (before, after dedupe.Tenure, standing dedupe.Standing, err error) {
	if err := bid.Validate(); err != nil {
		return before, after, 0, err
	}
	now, err := s.begin(ctx)
	if err != nil {
		return before, after, 0, err
	}
	defer s.mu.Unlock()
	before = s.tenures[bid.Instance]
	after, standing = before.Bid(bid, now)
	s.tenures[bid.Instance] = after
	return before, after, standing, nil
}
