package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

var _ dedupe.Clock = (*Store)(nil)

// Now implements dedupe.Clock: the server's TIME. On a Cluster it is that of
// the master whose clock is the furthest behind, so that no record is taken to
// be older than it is.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if s.pipe.closing() {
		return time.Time{}, dedupe.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	servers, err := masters(ctx, s.client)
	if err != nil {
		return time.Time{}, err
	}
	var earliest time.Time
	for _, name := range sortedKeys(servers) {
		now, err := servers[name].Time(ctx).Result()
		if err != nil {
			return time.Time{}, fmt.Errorf("redis TIME: %w", err)
		}
		if earliest.IsZero() || now.Before(earliest) {
			earliest = now
		}
	}
	return earliest, nil
}
