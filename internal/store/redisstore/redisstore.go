// Package redisstore is the dedupe.Store on Redis, shared by any number of
// sidecars: a standalone server, a master found by Sentinels, or a Cluster.
//
// Each step of package dedupe is decided here, by its rows as they are believed to be, and
// done by one small script that knows no rule, if they are that: whoever comes first wins,
// whatever the number of sidecars. Leases run on the server's clock. Steps recognise their
// own owner, so one whose reply was lost is simply sent again; that is the only retry
// there is, and the client library's own is off.
//
// What Redis can lose, this store can forget. It refuses a server that may
// evict keys, warns about one that keeps nothing over a restart, and can wait
// for replicas (Options.WaitReplicas). Even then Redis replication is no
// consensus: see the guarantees in the documentation.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
)

// maxTries bounds how often one request is sent.
const maxTries = 3

// Store is a dedupe.Store on Redis. A request heeds the deadline of its context
// at once; its cancellation perhaps only when what has been sent is answered or
// given up (Options.Timeout, and WaitTimeout).
type Store struct {
	dedupe.Machine

	options Options
	client  redis.UniversalClient
	pipe    *pipeline
	watches watches
	fitness fitness

	ctx    context.Context // of the goroutines
	cancel context.CancelFunc
	ended  sync.WaitGroup
	close  func() error
}

var _ interface {
	dedupe.Store
	dedupe.Watcher
	dedupe.Tenures
	conversation.Store
} = (*Store)(nil)

// New returns a store. It does not connect: a server that is down makes
// requests fail, and the store works as soon as it is back.
func New(options Options) *Store {
	s := &Store{options: options.withDefaults()}
	s.options.onConnect = func(context.Context, *redis.Conn) error {
		s.fitness.connected.Store(true)
		return nil
	}
	s.client = s.options.client()
	s.pipe = &pipeline{options: &s.options, lanes: map[string]*lane{}}
	s.pipe.only, _ = s.client.(*redis.Client)
	s.pipe.cluster, _ = s.client.(*redis.ClusterClient)
	s.watches = watches{wanted: make(chan struct{}, 1), hints: map[chan struct{}]string{}}
	s.Machine, s.close = dedupe.Machine{Engine: s}, sync.OnceValue(s.end)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.ended.Go(s.oversee)
	s.ended.Go(s.listen)
	return s
}

// Admit implements dedupe.Store. With WaitReplicas only a claim waits for them.
// A replay does not, so a failover may forget that its call is Done. It is then
// Claimed, which the replicas have: what must not be repeated becomes Unknown.
func (s *Store) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	if s.options.WaitReplicas == 0 {
		return s.Machine.Admit(ctx, req)
	}
	on := s.pipe.of(ctx, RecordKey(s.options.KeyPrefix, req.Key))
	switch {
	case !on.few.Load():
	case on.asks.CompareAndSwap(false, true):
		defer on.asks.Store(false)
	default:
		answer, err := dedupe.Recall(ctx, s, req, s.options.tooFew())
		if err != nil {
			err = fmt.Errorf("%w: %w", dedupe.ErrUnasked, err)
		}
		return answer, err
	}
	return s.Machine.Admit(ctx, req)
}

// Do implements dedupe.Engine. It refuses what a Cluster cannot do in one step, whatever the
// record is: the effects of a tenant are in another slot than the records of its conversations.
func (s *Store) Do(ctx context.Context, step *dedupe.Step) error {
	if s.options.Cluster && step.WholeTenant {
		return fmt.Errorf("%w: effects of a whole tenant on a Redis Cluster", dedupe.ErrInvalid)
	}
	return s.run(ctx, RecordKey(s.options.KeyPrefix, step.Call), step)
}

// Output implements dedupe.Store.
func (s *Store) Output(ctx context.Context, tenant, ref string) (dedupe.Output, error) {
	key, output := appendKey(nil, s.options.KeyPrefix, "output/", nowhere, tenant, ref), dedupe.Output{}
	return dedupe.AnswerOf(&output, s.run(ctx, string(key), own(0, func(r *rows) {
		err := dedupe.ErrNoOutput
		if text := r.read[r.at(key)].text; text != "" {
			output, err = decodeOutput(ref, text, r.now)
		}
		r.Fail(err)
	})))
}

// Ping implements dedupe.Store. It asks the server, on a Cluster every master, whether it can be
// trusted to remember: the error is ErrUnfit, ErrReplica, or that there was no answer; on a Cluster
// what each of them gave. What an operator should know is in the log.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	return s.inspect(ctx)
}

// open reports why nothing is asked any more.
func (s *Store) open(ctx context.Context) error {
	if s.pipe.closed.Load() {
		return dedupe.ErrClosed
	}
	return ctx.Err()
}

// Close implements dedupe.Store: what waits is still sent.
func (s *Store) Close() error { return s.close() }

func (s *Store) end() error {
	s.pipe.stop()
	s.cancel()
	s.ended.Wait()
	<-s.fitness.checks.DoChan("", func() (any, error) { return nil, nil }) // after one that is under way
	return s.client.Close()
}

// RoundTrips is the number of commands sent since the store was made, repetitions included.
// A call needs two, a replay one.
func (s *Store) RoundTrips() uint64 { return s.pipe.roundTrips.Load() }

// ready reports why nothing can be asked of the server. One that could not be reached, or
// was found unfit, is checked again for the next request. One that is a replica says so
// itself to each, which is what makes the client library look for the master.
func (s *Store) ready(ctx context.Context) error {
	err := s.open(ctx)
	if err != nil || s.fitness.found.Load() {
		return err
	}
	err = s.inspect(ctx)
	if s.fitness.found.Load() || errors.Is(err, ErrReplica) && !errors.Is(err, ErrUnfit) {
		return nil
	}
	return err
}

// run does a step, and one that is to be done after it. To send it again is harmless:
// steps know their owner.
func (s *Store) run(ctx context.Context, key string, step *dedupe.Step) error {
	if err := s.ready(ctx); err != nil {
		return fmt.Errorf("%w: %w", dedupe.ErrUnasked, err)
	}
	asked, after := false, (*command)(nil)
	err := persist(ctx, func() (err error) {
		after, err = s.pipe.do(ctx, key, step)
		failed, ok := errors.AsType[*net.OpError](err)
		asked = asked || !ok || failed.Op != "dial" // which has not left this process
		return named(key, err)
	})
	switch {
	case err != nil && !asked:
		return fmt.Errorf("%w: %w", dedupe.ErrUnasked, err)
	case err == nil && after != nil:
		return s.run(ctx, after.key, after.step)
	}
	return err
}

// persist asks until there is an answer that counts, a few times at the most and never
// beyond ctx.
func persist(ctx context.Context, ask func() error) error {
	for try := 1; ; try++ {
		err := ask()
		if err == nil || ctx.Err() != nil || !worthRepeating(err) || try == maxTries {
			return err
		}
		between := 10 * time.Millisecond << (2 * (try - 1))
		select {
		case <-time.After(between/2 + rand.N(between/2)):
		case <-ctx.Done():
			return err
		}
	}
}

// worthRepeating reports errors of the way to the server, and of a server that
// cannot answer just now. What it says about the command itself is final.
func worthRepeating(err error) bool {
	final := []error{dedupe.ErrClosed, dedupe.ErrPanic, redis.ErrClosed, dedupe.ErrInvalid, dedupe.ErrCorrupt, dedupe.ErrLayout, dedupe.ErrNoOutput}
	if slices.ContainsFunc(final, func(is error) bool { return errors.Is(err, is) }) {
		return false
	}
	passing := []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "BUSY", "MOVED", "ASK"}
	_, said := errors.AsType[redis.Error](err)
	return !said || slices.ContainsFunc(passing, func(begins string) bool { return redis.HasErrorPrefix(err, begins) })
}
