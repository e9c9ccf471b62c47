package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/dedupe"
)

// ErrEvicts is returned while the server may evict keys when its memory is
// full: it would forget calls, which could then run again.
var ErrEvicts = errors.New("the maxmemory-policy of redis is not noeviction, so it may forget calls; set it to noeviction, or allow eviction knowing that")

// checkAgain is how long a failed check answers for the next ones.
const checkAgain = 100 * time.Millisecond

// fit checks the server before the first request is sent to it. A server that
// could not be reached, or was found unfit, is checked again by the next one.
func (s *Store) fit(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	if s.pipe.closing() {
		return dedupe.ErrClosed
	}
	select {
	case s.checking <- struct{}{}:
		defer func() { <-s.checking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.checked.Load() {
		return nil
	}
	if s.lastFailure != nil && time.Since(s.failedAt) < checkAgain {
		return s.lastFailure
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	warnings, err := s.Check(ctx)
	if err != nil {
		s.lastFailure, s.failedAt = err, time.Now()
		return err
	}
	for _, w := range warnings {
		s.options.Log.Warn("the redis store", "warning", w)
	}
	s.checked.Store(true)
	return nil
}

// Check asks the server, on a Cluster every master, whether it can be trusted
// to remember. The warnings are sentences for the log. The error is ErrEvicts,
// or that there was no answer.
func (s *Store) Check(ctx context.Context) (warnings []string, err error) {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return s.checkOne(ctx, s.client)
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		found, err := s.checkOne(ctx, master)
		mu.Lock()
		defer mu.Unlock()
		for _, w := range found {
			if !seen[w] {
				seen[w] = true
				warnings = append(warnings, w)
			}
		}
		return err
	})
	return warnings, err
}

func (s *Store) checkOne(ctx context.Context, server redis.Cmdable) ([]string, error) {
	text, err := server.Info(ctx).Result()
	var said redis.Error
	switch {
	case redis.HasErrorPrefix(err, "NOPERM"), redis.HasErrorPrefix(err, "unknown command"):
		return []string{"INFO is not allowed to this user, so nobody knows whether redis may evict keys or forgets them at a restart"}, nil
	case errors.As(err, &said):
		return nil, fmt.Errorf("redis: %w", err)
	case err != nil:
		return nil, err
	}
	return judge(parseInfo(text), s.options)
}

// judge says what the INFO of a server means for a store of records.
func judge(info map[string]string, o Options) (warnings []string, err error) {
	switch policy := info["maxmemory_policy"]; {
	case policy == "":
		warnings = append(warnings, "redis does not tell its maxmemory-policy; it has to be noeviction")
	case policy != "noeviction" && !o.AllowEviction:
		return nil, fmt.Errorf("%w (it is %s)", ErrEvicts, policy)
	case policy != "noeviction":
		warnings = append(warnings, "the maxmemory-policy of redis is "+policy+": it may forget calls, which can then run again")
	}
	if info["aof_enabled"] == "0" && info["connected_slaves"] == "0" {
		warnings = append(warnings, "redis has neither an append-only file nor a replica: after a restart of redis the latest calls are forgotten and can run again")
	}
	if role := info["role"]; role != "" && role != "master" {
		warnings = append(warnings, "redis is a "+role+", which refuses every claim")
	}
	return warnings, nil
}

// parseInfo reads the lines key:value of INFO.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[key] = value
		}
	}
	return info
}
