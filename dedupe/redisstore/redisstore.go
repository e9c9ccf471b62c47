// Package redisstore is the dedupe.Store on Redis, shared by any number of
// sidecars: a standalone server, a master found by Sentinels, or a Cluster.
//
// Each request is one Lua script on one key, the mirror of the state machine in
// package dedupe: whoever comes first wins, whatever the number of sidecars.
// Leases run on the server's clock. The scripts recognise their own owner, so a
// request whose reply was lost is simply sent again; that is the only retry
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

// How many arguments admit.lua takes, and settle.lua without entries.
const mostOfClaim, mostOfSettlement = 14, 15

// Store is a dedupe.Store on Redis. A request heeds the deadline of its context
// at once; its cancellation perhaps only when what has been sent is answered or
// given up (Options.Timeout, and WaitTimeout).
type Store struct {
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

// knowledge are the optional fields that the scripts honour.
var knowledge = dedupe.Knowledge{Store: "the redis store", Fields: dedupe.FieldOutput | dedupe.FieldResolves | dedupe.FieldsOfLoop | dedupe.FieldsOfEffects}

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
	go fitness.oversee() // ends in Close
	return s, nil
}

// Admit implements dedupe.Store. With WaitReplicas only a claim waits for them.
// A replay does not, so a failover may forget that its call is Done. It is then
// Claimed, which the replicas have: what must not be repeated becomes Unknown.
func (s *Store) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	if err := req.Validate(knowledge); err != nil {
		return dedupe.Admission{}, err
	}
	keys := append(make([]string, 0, len(req.Logs)+3), recordKey(s.options.KeyPrefix, req.Key))
	keys = logKeys(keys, s.options.KeyPrefix, req.Key, req.Logs)
	args := append(make([]any, 0, mostOfClaim),
		req.Owner, req.Tool, int(req.Effect), req.Fingerprint[:], req.Lease.Milliseconds(), req.Retention.Milliseconds(), dedupe.EncodeCharges(req.Charges))
	contends := req.EffectKey != (dedupe.EffectKey{})
	if d := req.Draw; d.Counter != "" {
		args = append(args, d.Counter, d.Tokens, d.MaxCalls, d.MaxTokens, d.MaxAge.Milliseconds())
	} else if contends {
		args = append(args, "", "", "", "", "")
	}
	if contends {
		if err := s.sameSlot(&req.EffectKey); err != nil {
			return dedupe.Admission{}, err
		}
		keys = append(keys, effectKey(s.options.KeyPrefix, req.Key, &req.EffectKey))
		args = append(args, req.EffectKey.Window.Milliseconds(), req.EffectKey.Allow)
	}
	if req.Draw.Counter != "" {
		keys = append(keys, sheetKey(s.options.KeyPrefix, "budget/", req.Key, req.Draw.Counter))
	}
	words := admitScript.call(keys, args...)
	if asks := s.pipe.doubt(ctx, words); asks != nil {
		if !asks.CompareAndSwap(false, true) {
			return s.known(ctx, req)
		}
		defer asks.Store(false)
	}
	var admission dedupe.Admission
	err := s.run(ctx, admitScript, words, 0, func(reply any) (durable bool, err error) {
		admission, err = decodeAdmission(s.options.KeyPrefix, req, reply)
		return admission.Verdict != dedupe.Won, err
	})
	if err != nil {
		return dedupe.Admission{}, err
	}
	return admission, nil
}

// sameSlot refuses what a Cluster cannot do in one step: the effects of a tenant are
// in another slot than the records of its conversations.
func (s *Store) sameSlot(e *dedupe.EffectKey) error {
	if s.options.Cluster && e.WholeTenant {
		return fmt.Errorf("%w: effects of a whole tenant on a Redis Cluster", dedupe.ErrInvalid)
	}
	return nil
}

// Settle implements dedupe.Store. The output is kept by the same script; on a
// Cluster, where its slot is another, by a command sent after it.
func (s *Store) Settle(ctx context.Context, settlement dedupe.Settlement) (dedupe.SettleVerdict, error) {
	if err := settlement.Validate(knowledge); err != nil {
		return 0, err
	}
	keys := append(make([]string, 0, len(settlement.Appends)+4), recordKey(s.options.KeyPrefix, settlement.Key))
	for _, a := range settlement.Appends {
		keys = append(keys, sheetKey(s.options.KeyPrefix, "log/", settlement.Key, a.Log))
	}
	args := append(make([]any, 0, mostOfSettlement+2*len(settlement.Appends)),
		settlement.Owner, settlement.Epoch, int(settlement.State), settlement.Attempts,
		settlement.Result, settlement.Retention.Milliseconds(), settlement.Resolves, settledChannel(s.options.KeyPrefix),
		dedupe.ResultSum(settlement.Result))
	frees := settlement.Frees != (dedupe.EffectKey{})
	output := settlement.Output
	keeps := output != nil && !s.options.Cluster
	beside := settlement.Spend.Counter != "" || frees || keeps
	if beside || len(settlement.Appends) > 0 {
		args = appendEntries(append(args, len(settlement.Appends)), settlement.Appends)
	}
	if beside {
		args = append(args, settlement.Spend.Counter, settlement.Spend.Tokens, frees)
	}
	if frees {
		if err := s.sameSlot(&settlement.Frees); err != nil {
			return 0, err
		}
		keys = append(keys, effectKey(s.options.KeyPrefix, settlement.Key, &settlement.Frees))
	}
	weight := len(settlement.Result) + entryBytes(settlement.Appends)
	if keeps {
		keys = append(keys, outputKey(s.options.KeyPrefix, settlement.Key.Tenant, output.Ref))
		args = append(args, encodeOutput(output), output.TTL.Milliseconds())
		weight += len(output.Data)
	}
	if counter := settlement.Spend.Counter; counter != "" {
		keys = append(keys, sheetKey(s.options.KeyPrefix, "budget/", settlement.Key, counter))
	}
	var verdict dedupe.SettleVerdict
	err := s.run(ctx, settleScript, settleScript.call(keys, args...), weight, func(reply any) (durable bool, err error) {
		verdict, err = decodeSettled(reply)
		return verdict != dedupe.Settled, err
	})
	if err == nil && verdict == dedupe.Settled && output != nil && s.options.Cluster {
		err = s.keep(ctx, settlement.Key.Tenant, output)
	}
	if err != nil {
		return 0, err
	}
	return verdict, nil
}

// keep stores an output by a command of its own.
func (s *Store) keep(ctx context.Context, tenant string, output *dedupe.Output) error {
	words := []any{"set", outputKey(s.options.KeyPrefix, tenant, output.Ref), encodeOutput(output), "px", output.TTL.Milliseconds()}
	return s.run(ctx, nil, words, len(output.Data), func(any) (bool, error) { return true, nil })
}

// Renew implements dedupe.Store.
func (s *Store) Renew(ctx context.Context, key dedupe.Key, owner string, epoch int64, lease time.Duration) (bool, error) {
	words := renewScript.call([]string{recordKey(s.options.KeyPrefix, key)}, owner, epoch, lease.Milliseconds())
	renewed := false
	err := s.run(ctx, renewScript, words, 0, func(reply any) (durable bool, err error) {
		n, ok := reply.(int64)
		if !ok {
			return false, unexpected(reply)
		}
		renewed = n == 1
		return !renewed, nil
	})
	return renewed && err == nil, err
}

// Restore implements dedupe.Store.
func (s *Store) Restore(ctx context.Context, back dedupe.Restoration) (record dedupe.Record, restored bool, err error) {
	if err := back.Validate(knowledge); err != nil {
		return dedupe.Record{}, false, err
	}
	claim, keys, args := back.Claim, []string{recordKey(s.options.KeyPrefix, back.Key)}, []any(nil)
	if e := &back.EffectKey; *e != (dedupe.EffectKey{}) {
		if err := s.sameSlot(e); err != nil {
			return dedupe.Record{}, false, err
		}
		keys = append(keys, effectKey(s.options.KeyPrefix, back.Key, e))
		args = append(args, e.Keep(back.Retention).Milliseconds())
	}
	words := restoreScript.call(keys,
		append([]any{claim.Owner, claim.Epoch, claim.Tool, int(claim.Effect), claim.Fingerprint[:], dedupe.Millis(claim.StartedAt),
			back.Lease.Milliseconds(), back.Retention.Milliseconds(), dedupe.EncodeCharges(claim.Charges)}, args...)...)
	err = s.run(ctx, restoreScript, words, 0, func(reply any) (durable bool, err error) {
		record, restored, err = decodeRestored(reply)
		return !restored, err
	})
	if err != nil {
		return dedupe.Record{}, false, err
	}
	return record, restored, nil
}

// Lookup implements dedupe.Store.
func (s *Store) Lookup(ctx context.Context, key dedupe.Key) (dedupe.Record, error) {
	seen, err := s.See(ctx, key)
	return seen.Record, err
}

// See implements conversation.Store.
func (s *Store) See(ctx context.Context, key dedupe.Key) (seen dedupe.Seen, err error) {
	words := lookupScript.call([]string{recordKey(s.options.KeyPrefix, key)})
	err = s.run(ctx, lookupScript, words, 0, func(reply any) (durable bool, err error) {
		seen, err = decodeLookup(reply)
		return true, err
	})
	return seen, err
}

// Note implements dedupe.Store.
func (s *Store) Note(ctx context.Context, n dedupe.Note) (dedupe.Noted, error) {
	if err := n.Validate(); err != nil {
		return dedupe.Noted{}, err
	}
	keys := []string{recordKey(s.options.KeyPrefix, n.Key)}
	for _, a := range n.Appends {
		keys = append(keys, sheetKey(s.options.KeyPrefix, "log/", n.Key, a.Log))
	}
	keys = logKeys(keys, s.options.KeyPrefix, n.Key, n.Logs)
	words := appendEntries(noteScript.call(keys, n.Retention.Milliseconds(), len(n.Appends), n.Counter), n.Appends)
	var noted dedupe.Noted
	err := s.run(ctx, noteScript, words, entryBytes(n.Appends), func(reply any) (durable bool, err error) {
		noted, err = decodeNoted(n, reply)
		return true, err // a log is no record: what a failover forgets of it is forgotten
	})
	if err != nil {
		return dedupe.Noted{}, err
	}
	return noted, nil
}

// appendEntries appends the arguments of entries.
func appendEntries(args []any, appends []dedupe.Append) []any {
	for _, a := range appends {
		args = append(args, a.Entry, a.Keep)
	}
	return args
}

func entryBytes(appends []dedupe.Append) (n int) {
	for _, a := range appends {
		n += len(a.Entry)
	}
	return n
}

// Output implements dedupe.Store.
func (s *Store) Output(ctx context.Context, tenant, ref string) (dedupe.Output, error) {
	key := outputKey(s.options.KeyPrefix, tenant, ref)
	var output dedupe.Output
	err := s.run(ctx, outputScript, outputScript.call([]string{key}), 0, func(reply any) (durable bool, err error) {
		fields, ok := reply.([]any)
		if !ok || len(fields) != 2 {
			return true, dedupe.ErrNoOutput
		}
		value, isString := fields[0].(string)
		left, isNumber := fields[1].(int64)
		if !isString || !isNumber {
			return true, unexpected(reply)
		}
		output, err = decodeOutput(ref, value, time.Duration(left)*time.Millisecond)
		return true, err
	})
	return output, err
}

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
// most and never beyond ctx. Sending it again is harmless: the scripts know
// their owner. read says whether the reply counts without being replicated.
func (s *Store) run(ctx context.Context, script *script, words []any, weight int, read func(reply any) (durable bool, err error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.fit(ctx); err != nil {
		return err
	}
	asked := false
	for try := 0; ; try++ {
		c := &command{words: words, script: script, weight: weight}
		err := refused(c.key(), s.pipe.do(ctx, c))
		asked = asked || !unsent(err)
		if err == nil {
			var durable bool
			if durable, err = read(c.reply); err != nil || durable || c.replicated {
				return named(c.key(), err)
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

// refused tells of a record that a script did not take for one (record.lua), or
// that is none at all.
func refused(name string, err error) error {
	switch {
	case redis.HasErrorPrefix(err, "LAYOUT "):
		err = fmt.Errorf("%w: %w", dedupe.ErrLayout, err)
	case redis.HasErrorPrefix(err, "SIDECALL "), redis.HasErrorPrefix(err, "WRONGTYPE "):
		err = fmt.Errorf("%w: %w", dedupe.ErrCorrupt, err)
	}
	return named(name, err)
}

// named says which record an error is of, if it is one's.
func named(name string, err error) error {
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
	if errors.Is(err, dedupe.ErrClosed) || errors.Is(err, redis.ErrClosed) {
		return false
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
