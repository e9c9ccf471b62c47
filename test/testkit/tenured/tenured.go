// Package tenured is a store in memory on which several processes of a test follow each other
// as one instance.
package tenured

import (
	"context"
	"sync"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
)

// Store is one that keeps tenures too.
type Store struct {
	*embedded.Store

	mu      sync.Mutex
	tenures map[string]dedupe.Tenure
}

var _ dedupe.Tenures = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	return &Store{Store: embedded.InMemory(embedded.Options{}), tenures: map[string]dedupe.Tenure{}}
}

// Bid implements dedupe.Tenures.
func (s *Store) Bid(ctx context.Context, bid dedupe.Bid) (before, after dedupe.Tenure, err error) {
	if err := s.Ping(ctx); err != nil {
		return before, after, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.tenures[bid.Instance]
	after = before.Bid(bid, time.Now())
	s.tenures[bid.Instance] = after
	return before, after, nil
}
