// Package memory is a dedupe.Store that lives in the process and dies with it.
// It is for tests and for trying things out: after a restart it knows of no
// call, so that a call which ran before can run again. Whoever offers it to a
// user logs Warning at start.
//
// It keeps the rows of package dedupe under one mutex. Records and
// outputs expire by time, a few at each request, so that no request pays for
// many; what is expired is invisible even before it is swept.
package memory

import (
	"context"
	"fmt"

	"github.com/sidecall/sidecall/dedupe"
)

// Warning says what is wrong with this store, in one sentence for the log.
const Warning = "the memory store forgets everything when the process ends: a call made before a restart can run again after it"

var (
	_ dedupe.Store   = (*Store)(nil)
	_ dedupe.Tenures = (*Store)(nil)
)

// ListUnknown implements dedupe.Store, on one page.
func (s *Store) ListUnknown(ctx context.Context, from string) (dedupe.Page, error) {
	if from != "" {
		return dedupe.Page{}, fmt.Errorf("%w: %q is no place where a listing goes on", dedupe.ErrInvalid, from)
	}
	now, err := s.begin(ctx)
	if err != nil {
		return dedupe.Page{}, err
	}
	defer s.mu.Unlock()
	var page dedupe.Page
	for key := range s.records.entries {
		stored, _ := s.records.get(key, now)
		if r := stored.Observed(now); r.State == dedupe.Unknown {
			page.Calls = append(page.Calls, dedupe.Listed{Key: key, Record: r})
		}
	}
	return page, nil
}

// Output implements dedupe.Store.
func (s *Store) Output(ctx context.Context, tenant, ref string) (dedupe.Output, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return dedupe.Output{}, err
	}
	defer s.mu.Unlock()
	name := outputKey{tenant, ref}
	kept, ok := s.outputs.get(name, now)
	if !ok {
		return dedupe.Output{}, dedupe.ErrNoOutput
	}
	kept.TTL = s.outputs.entries[name].expires.Sub(now)
	return kept, nil
}

// Ping implements dedupe.Store.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.begin(ctx)
	if err == nil {
		s.mu.Unlock()
	}
	return err
}

// Close implements dedupe.Store. It forgets everything.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.kept = kept{}
	return nil
}

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
