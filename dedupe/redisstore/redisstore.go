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
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/dedupe"
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

	fitness *fitness

	closeOnce sync.Once
	closeErr  error
}

var (
	_ dedupe.Store   = (*Store)(nil)
	_ dedupe.Watcher = (*Store)(nil)
)

// New returns a store. It does not connect: a server that is down makes
// requests fail, and the store works as soon as it is back. The error names an
// option that cannot work.
func New(options Options) (*Store, error) {
	options = options.withDefaults()
	if err := options.validate(); err != nil {
		return nil, err
	}
	fitness := newFitness(options)
	options.onConnect = fitness.hint
	client := options.client()
	fitness.client = client
	s := &Store{options: options, client: client, pipe: newPipeline(client, options), fitness: fitness}
	s.Machine = dedupe.Machine{Engine: s}
	go fitness.oversee() // ends in Close
	return s, nil
}

// Admit implements dedupe.Store. With WaitReplicas only a claim waits for them.
// A replay does not, so a failover may forget that its call is Done. It is then
// Claimed, which the replicas have: what must not be repeated becomes Unknown.
func (s *Store) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	if err := s.sameSlot(&req.EffectKey); err != nil {
		return dedupe.Admission{}, err
	}
	if asks := s.pipe.doubt(ctx, recordKey(s.options.KeyPrefix, req.Key)); asks != nil {
		if !asks.CompareAndSwap(false, true) {
			return s.known(ctx, req)
		}
		defer asks.Store(false)
	}
	return s.Machine.Admit(ctx, req)
}

// Settle implements dedupe.Store.
func (s *Store) Settle(ctx context.Context, settlement dedupe.Settlement) (dedupe.SettleVerdict, error) {
	if err := s.sameSlot(&settlement.Frees); err != nil {
		return 0, err
	}
	if c := settlement.Claim; c != nil {
		if err := s.sameSlot(&c.EffectKey); err != nil {
			return 0, err
		}
	}
	return s.Machine.Settle(ctx, settlement)
}

// Restore implements dedupe.Store.
func (s *Store) Restore(ctx context.Context, back dedupe.Restoration) (dedupe.Record, bool, error) {
	if err := s.sameSlot(&back.EffectKey); err != nil {
		return dedupe.Record{}, false, err
	}
	return s.Machine.Restore(ctx, back)
}

// sameSlot refuses what a Cluster cannot do in one step, whatever the record is: the
// effects of a tenant are in another slot than the records of its conversations.
func (s *Store) sameSlot(e *dedupe.EffectKey) error {
	if s.options.Cluster && e.WholeTenant {
		return fmt.Errorf("%w: effects of a whole tenant on a Redis Cluster", dedupe.ErrInvalid)
	}
	return nil
}

// Do implements dedupe.Engine.
func (s *Store) Do(ctx context.Context, step dedupe.Step) error {
	key := recordKey(s.options.KeyPrefix, step.Call())
	var done *command
	err := s.run(ctx, func() *command {
		done = &command{key: key, step: step, weight: step.Bytes(), ofCall: true}
		done.rows.own, done.rows.ownName = step.Call(), key
		return done
	}, func() bool { return !step.Binds() })
	if err == nil && done.rows.beside != nil {
		words := done.rows.beside
		name, _ := words[1].(string)
		err = s.run(ctx, func() *command { return &command{key: name, words: words, weight: step.Bytes(), ofCall: true} }, always)
	}
	return err
}

// Look implements dedupe.Engine.
func (s *Store) Look(ctx context.Context, step dedupe.Step) error { return s.Do(ctx, step) }

// always: the reply of a command counts, whatever replicas have.
func always() bool { return true }

// Ping implements dedupe.Store. It is a Check, so that it also notices a server
// that has become unfit; on a Cluster it asks every master.
func (s *Store) Ping(ctx context.Context) error {
	if s.pipe.closing() {
		return dedupe.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.fitness.inspect(ctx, false)
}

// Check asks the server, on a Cluster every master, whether it can be trusted
// to remember. The warnings are sentences for the log. The error is ErrEvicts,
// ErrReplica, or that there was no answer; on a Cluster what each of them gave.
func (s *Store) Check(ctx context.Context) (warnings []string, err error) {
	warnings, _, err = s.fitness.check(ctx)
	return warnings, err
}

// fit reports why the server cannot be trusted with a request.
func (s *Store) fit(ctx context.Context) error {
	if s.fitness.found.Load() {
		return nil
	}
	if s.pipe.closing() {
		return dedupe.ErrClosed
	}
	return s.fitness.fit(ctx)
}

// Watch implements dedupe.Watcher.
func (s *Store) Watch(key dedupe.Key) (hints <-chan struct{}, stop func()) {
	return s.watches.watch(s.client, settledChannel(s.options.KeyPrefix), recordKey(s.options.KeyPrefix, key))
}

// Close implements dedupe.Store: what waits is still sent.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		err := s.pipe.stop()
		s.watches.close()
		close(s.fitness.quit)
		<-s.fitness.ended
		s.closeErr = errors.Join(err, s.client.Close())
	})
	return s.closeErr
}

// Stats returns what the store has done since it was made.
func (s *Store) Stats() Stats {
	return Stats{RoundTrips: s.pipe.roundTrips.Load(), Pipelines: s.pipe.batches.Load()}
}

// run sends a command until there is a reply that counts, a few times at the
// most and never beyond ctx. Sending it again is harmless: steps know their owner.
// durable says whether the reply counts without being replicated.
func (s *Store) run(ctx context.Context, send func() *command, durable func() bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.fit(ctx); err != nil {
		return err
	}
	asked := false
	for try := 0; ; try++ {
		c := send()
		err := refused(c.key, s.pipe.do(ctx, c))
		asked = asked || !unsent(err)
		if err == nil {
			if c.replicated || durable() {
				return nil
			}
			err = s.tooFew()
		}
		if ctx.Err() != nil || !worthRepeating(err) || try+1 == maxTries || !pause(ctx, try) {
			if !asked {
				err = fmt.Errorf("%w: %w", dedupe.ErrUnasked, err)
			}
			return err
		}
	}
}

// pause waits before the next try, unless ctx ends.
func pause(ctx context.Context, try int) bool {
	between := pauseBetween(try)
	timer := time.NewTimer(between/2 + rand.N(between/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// refused tells of a row that is none: of another type, or a list that is too short.
func refused(name string, err error) error {
	if err == nil {
		return nil
	}
	if redis.HasErrorPrefix(err, "SIDECALL ") || redis.HasErrorPrefix(err, "WRONGTYPE ") {
		err = fmt.Errorf("%w: %w", dedupe.ErrCorrupt, err)
	}
	return called(name, err)
}

// called says which record an error is of, if it is one's.
func called(name string, err error) error {
	switch {
	case errors.Is(err, dedupe.ErrLayout):
		return fmt.Errorf("record %s: %w", name, err)
	case errors.Is(err, dedupe.ErrCorrupt) && !dedupe.IsCorrupt(err):
		return &dedupe.Corrupt{Name: name, Why: err}
	}
	return err
}

// worthRepeating reports errors of the way to the server, and of a server that
// cannot answer just now. What it says about the command itself is final.
func worthRepeating(err error) bool {
	for _, final := range []error{dedupe.ErrClosed, redis.ErrClosed, dedupe.ErrInvalid, dedupe.ErrCorrupt, dedupe.ErrLayout, dedupe.ErrNoOutput} {
		if errors.Is(err, final) {
			return false
		}
	}
	if _, said := errors.AsType[redis.Error](err); !said {
		return true
	}
	for _, passing := range []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "BUSY", "MOVED", "ASK"} {
		if redis.HasErrorPrefix(err, passing) {
			return true
		}
	}
	return false
}
