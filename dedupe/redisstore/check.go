package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrEvicts is returned while the server may evict keys when its memory is
// full: it would forget calls, which could then run again.
var ErrEvicts = errors.New("the maxmemory-policy of redis is not noeviction, so it may forget calls; set it to noeviction")

// ErrReplica is returned by Check and Ping while the server is a replica, as a
// master is that was replaced.
var ErrReplica = errors.New("redis is a read-only replica, which refuses every claim, and not the master")

const (
	// checkAgain is how long a failed check answers for the next ones.
	checkAgain = 100 * time.Millisecond
	// checkPause is at least between two checks for the sake of new connections.
	checkPause = time.Second
)

// fitness is whether the server can be trusted to remember, as far as is known.
type fitness struct {
	client  redis.UniversalClient
	options Options

	// found says that the last one found it fit, or at least one master of a
	// Cluster and none that may evict; until then requests are preceded by an
	// inspection, one at a time.
	found atomic.Bool
	lock  chan struct{} // a lock that a context can give up on
	// Under that lock: failure and failedAt spare the requests that wait for it
	// one of their own; warned has what the operator has been told.
	failure  error
	failedAt time.Time
	warned   map[string]bool

	connected chan struct{} // takes one hint of a new connection
	quit      chan struct{} // closed to end oversee
	ended     chan struct{} // closed when it has
}

func newFitness(options Options) *fitness {
	return &fitness{
		options: options,
		lock:    make(chan struct{}, 1), warned: map[string]bool{},
		connected: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{}),
	}
}

// hint is told of every new connection: at its other end may be another server
// than before, or the same one with another configuration.
func (f *fitness) hint(context.Context, *redis.Conn) error {
	select {
	case f.connected <- struct{}{}:
	default: // there is one already
	}
	return nil
}

// fit checks the server before the first request is sent to it. A server that
// could not be reached, or was found unfit, is checked again by the next one.
// One that is a replica says so itself to each request, which is what makes the
// client library look for the master.
func (f *fitness) fit(ctx context.Context) error {
	err := f.inspect(ctx, true)
	if f.found.Load() {
		return nil
	}
	if errors.Is(err, ErrReplica) && !errors.Is(err, ErrEvicts) {
		return nil
	}
	return err
}

// inspect checks the server and remembers what it found. A recent failure is good
// enough for a request.
func (f *fitness) inspect(ctx context.Context, request bool) error {
	select {
	case f.lock <- struct{}{}:
		defer func() { <-f.lock }()
	case <-ctx.Done():
		return fmt.Errorf("waiting for a check of redis: %w", ctx.Err())
	}
	switch {
	case request && f.found.Load():
		return nil
	case request && f.failure != nil && time.Since(f.failedAt) < checkAgain:
		return f.failure
	}
	ctx, cancel := context.WithTimeout(ctx, f.options.Timeout)
	defer cancel()
	warnings, fit, err := f.check(ctx)
	f.failure, f.failedAt = err, time.Now()
	f.warn(warnings)
	switch {
	case errors.Is(err, ErrEvicts):
		if f.found.Swap(false) {
			f.options.Log.Error("the redis store", "error", err)
		}
	case fit > 0: // a master that is away fails the requests for its own slots
		f.found.Store(true)
	}
	return err
}

// warn tells the operator what it has not told since it was otherwise.
func (f *fitness) warn(warnings []string) {
	now := map[string]bool{}
	for _, w := range warnings {
		if now[w] = true; !f.warned[w] {
			f.options.Log.Warn("the redis store", "warning", w)
		}
	}
	f.warned = now
}

// oversee checks again whether a server that was found fit still is: now and
// then, and when there are new connections. It is a goroutine of the store.
func (f *fitness) oversee() {
	defer close(f.ended)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tick := time.NewTicker(f.options.CheckEvery)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-f.quit:
			return
		case <-tick.C:
		case <-f.connected:
			select {
			case <-time.After(time.Until(last.Add(checkPause))):
			case <-f.quit:
				return
			}
		}
		if last = time.Now(); f.found.Load() {
			_ = f.inspect(ctx, false) // a server that is away fails the requests themselves
		}
	}
}

// check is Store.Check, and counts the servers that are fit.
func (f *fitness) check(ctx context.Context) (warnings []string, fit int, err error) {
	defer func() {
		if _, said := errors.AsType[redis.Error](err); err != nil && !said && !errors.Is(err, ErrEvicts) && !errors.Is(err, ErrReplica) {
			err = fmt.Errorf("redis does not answer: %w", err)
		}
	}()
	servers, err := masters(ctx, f.client)
	if err != nil {
		return nil, 0, err
	}
	var mu sync.Mutex
	var errs []error // of all: one that fails must not hide another that may evict
	seen := map[string]bool{}
	var all sync.WaitGroup
	for _, server := range servers {
		all.Go(func() {
			found, err := f.checkOne(ctx, server)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			if err == nil {
				fit++
			}
			for _, w := range found {
				if !seen[w] {
					seen[w] = true
					warnings = append(warnings, w)
				}
			}
		})
	}
	all.Wait()
	return warnings, fit, errors.Join(errs...)
}

func (f *fitness) checkOne(ctx context.Context, server redis.Cmdable) ([]string, error) {
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
	return judge(parseInfo(text), f.options)
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
		return warnings, ErrReplica
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
