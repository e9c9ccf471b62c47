package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/dedupe"
)

// master is a server that holds records; its address is empty when there is but one.
type master struct {
	redis.Cmdable
	addr string
}

// masters returns the servers that hold the records, by address.
func masters(ctx context.Context, client redis.UniversalClient) (all []master, err error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return []master{{client, ""}}, nil
	}
	var mu sync.Mutex
	err = cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, master{node, node.Options().Addr})
		return nil
	})
	if err == nil && len(all) == 0 {
		err = errors.New("the redis cluster has no master")
	}
	slices.SortFunc(all, func(a, b master) int { return cmp.Compare(a.addr, b.addr) })
	return all, err
}

var _ dedupe.Clock = (*Store)(nil)

// Now implements dedupe.Clock: the server's TIME. On a Cluster it is that of
// the master whose clock is the furthest behind, so that no record is taken to
// be older than it is.
func (s *Store) Now(ctx context.Context) (earliest time.Time, err error) {
	if s.pipe.closing() {
		return time.Time{}, dedupe.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	all, err := masters(ctx, s.client)
	for _, m := range all {
		now, err := m.Time(ctx).Result()
		if err != nil {
			return time.Time{}, fmt.Errorf("redis TIME: %w", err)
		}
		if earliest.IsZero() || now.Before(earliest) {
			earliest = now
		}
	}
	return earliest, err
}
