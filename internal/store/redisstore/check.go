package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"
)

// ErrUnfit is returned while the server may evict keys when its memory is full, and would forget
// calls, which could then run again, or is too old to do a step.
var ErrUnfit = errors.New("redis cannot be used")

// ErrReplica is returned by Ping while the server is a replica, as a
// master is that was replaced.
var ErrReplica = errors.New("redis is a read-only replica, which refuses every claim, and not the master")

// oldest is the first version of Redis that knows all that step.lua asks for.
const oldest = 7

// checkPause is at least between two checks for the sake of new connections.
const checkPause = time.Second

// fitness is whether the server can be trusted to remember, as far as is known.
type fitness struct {
	// found says that the last check found it fit, or at least one master of a Cluster and
	// none that may evict; until then requests are preceded by a check.
	found  atomic.Bool
	checks singleflight.Group
	warned []string // what the last check told the operator
	// connected says that there was a new connection: to another server than before, perhaps,
	// or to the same one with another configuration.
	connected atomic.Bool
}

// inspect checks the server and remembers what it found. Whoever comes meanwhile is told
// the same.
func (s *Store) inspect(ctx context.Context) error {
	f := &s.fitness
	said := f.checks.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(s.ctx, s.options.Timeout)
		defer cancel()
		warnings, fit, err := s.check(ctx)
		for _, w := range warnings {
			if !slices.Contains(f.warned, w) { // since it was otherwise
				s.options.Log.Warn("the redis store", "warning", w)
			}
		}
		f.warned = warnings
		if !errors.Is(err, ErrUnfit) {
			// A master that is away fails the requests for its own slots.
			f.found.Store(f.found.Load() || fit)
		} else if f.found.Swap(false) {
			s.options.Log.Error("the redis store", "error", err)
		}
		return nil, err
	})
	select {
	case found := <-said:
		return found.Err
	case <-ctx.Done():
		return fmt.Errorf("waiting for a check of redis: %w", ctx.Err())
	}
}

// oversee checks again whether a server that was found fit still is: now and
// then, and when there are new connections.
func (s *Store) oversee() {
	tick := time.NewTicker(min(checkPause, s.options.CheckEvery))
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
		if s.fitness.found.Load() && (s.fitness.connected.Swap(false) || time.Since(last) >= s.options.CheckEvery) {
			last = time.Now()
			_ = s.inspect(s.ctx) // a server that is away fails the requests themselves
		}
	}
}

// check asks all servers; fit says that one of them can be trusted. The warnings are sentences.
func (s *Store) check(ctx context.Context) (warnings []string, fit bool, err error) {
	servers, err := masters(ctx, s.client)
	if err != nil {
		return nil, false, unanswered(err)
	}
	said, errs := make([][]string, len(servers)), make([]error, len(servers)) // one that fails must not hide another that may evict
	var all sync.WaitGroup
	for i, server := range servers {
		all.Go(func() { said[i], errs[i] = checkOne(ctx, server) })
	}
	all.Wait()
	warnings = slices.Concat(said...)
	slices.Sort(warnings)
	return slices.Compact(warnings), slices.Contains(errs, nil), errors.Join(errs...)
}

// unanswered is the error of a server that was asked about itself.
func unanswered(err error) error {
	if _, said := errors.AsType[redis.Error](err); said {
		return fmt.Errorf("redis: %w", err)
	}
	return fmt.Errorf("redis does not answer: %w", err)
}

func checkOne(ctx context.Context, server redis.Cmdable) ([]string, error) {
	text, err := server.Info(ctx).Result()
	switch {
	case redis.HasErrorPrefix(err, "NOPERM"), redis.HasErrorPrefix(err, "unknown command"):
		return []string{"INFO is not allowed to this user, so nobody knows whether redis may evict keys or forgets them at a restart"}, nil
	case err != nil:
		return nil, unanswered(err)
	}
	return judge(text)
}

// judge says what the INFO of a server means for a store of records.
func judge(info string) (warnings []string, err error) {
	says := func(key string) string {
		_, behind, _ := strings.Cut("\n"+info, "\n"+key+":")
		value, _, _ := strings.Cut(behind, "\r")
		return value
	}
	switch policy := says("maxmemory_policy"); policy {
	case "noeviction":
	case "":
		warnings = append(warnings, "redis does not tell its maxmemory-policy; it has to be noeviction")
	default:
		return nil, fmt.Errorf("%w: its maxmemory-policy is %s and not noeviction, so it may forget calls; set it to noeviction", ErrUnfit, policy)
	}
	version := says("redis_version") // of Redis, to whoever says another of his own
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < oldest {
		return nil, fmt.Errorf("%w: it is version %s, and %d or later is needed; upgrade it", ErrUnfit, version, oldest)
	}
	if says("aof_enabled") == "0" && says("connected_slaves") == "0" {
		warnings = append(warnings, "redis has neither an append-only file nor a replica: after a restart of redis the latest calls are forgotten and can run again")
	}
	if role := says("role"); role != "" && role != "master" {
		return warnings, ErrReplica
	}
	return warnings, nil
}
