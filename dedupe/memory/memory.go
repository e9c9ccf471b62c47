// Package memory is a dedupe.Store that lives in the process and dies with it.
// It is for tests and for trying things out: after a restart it knows of no
// call, so that a call which ran before can run again. Whoever offers it to a
// user logs Warning at start.
//
// It applies the state machine of package dedupe under one mutex. Records and
// outputs expire by time, a few at each request, so that no request pays for
// many; what is expired is invisible even before it is swept.
package memory

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// Warning says what is wrong with this store, in one sentence for the log.
const Warning = "the memory store forgets everything when the process ends: a call made before a restart can run again after it"

var _ dedupe.Store = (*Store)(nil)

// knowledge are the optional fields that the store honours.
var knowledge = dedupe.Knowledge{Store: "the memory store", Fields: dedupe.FieldOutput | dedupe.FieldResolves | dedupe.FieldsOfLoop | dedupe.FieldsOfEffects}

// Admit implements dedupe.Store.
func (s *Store) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	if err := req.Validate(knowledge); err != nil {
		return dedupe.Admission{}, err
	}
	now, err := s.begin(ctx)
	if err != nil {
		return dedupe.Admission{}, err
	}
	defer s.mu.Unlock()
	current := s.find(req.Key, now)
	next, verdict, changed := current.Admit(req, now)
	if changed && current.State == dedupe.Absent && len(s.records) >= s.options.MaxRecords {
		return dedupe.Admission{}, fmt.Errorf("%w: it holds %d records", dedupe.ErrFull, len(s.records))
	}
	var holds []dedupe.Key
	if current.Contends(&req, verdict) {
		var refusal *dedupe.Admission
		if refusal, holds = s.contend(&req, now); refusal != nil {
			refusal.Tally = s.drawn(&req, now)
			return *refusal, nil
		}
	}
	if exceeded := s.bill(&req, current.Record, next, verdict, now); exceeded != nil {
		return *exceeded, nil
	}
	if changed {
		s.put(req.Key, next, req.Retention, now)
		s.move(req.Key, current.Moves(next), req.Retention, now)
	}
	if holds != nil {
		s.hold(effectOf(req.Key, &req.EffectKey), holds, req.EffectKey.Keep(req.Retention), now)
	}
	admission := dedupe.Admission{Verdict: verdict, Record: next, Tally: s.drawn(&req, now)}
	if verdict == dedupe.Won {
		admission.Logs = s.logs(req.Key, req.Logs, now)
	}
	return admission, nil
}

// Settle implements dedupe.Store.
func (s *Store) Settle(ctx context.Context, settlement dedupe.Settlement) (dedupe.SettleVerdict, error) {
	if err := settlement.Validate(knowledge); err != nil {
		return 0, err
	}
	now, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	current := s.find(settlement.Key, now)
	next, verdict, changed := current.Settle(settlement, now)
	if changed {
		next.Result = bytes.Clone(next.Result)
		s.put(settlement.Key, next, settlement.Retention, now)
		s.move(settlement.Key, current.Moves(next), settlement.Retention, now)
		s.spend(&settlement, now)
		s.append(settlement.Key, settlement.Appends, settlement.Retention, now)
	}
	if verdict == dedupe.Settled {
		s.free(settlement.Key, &settlement.Frees, now)
	}
	if verdict == dedupe.Settled && settlement.Output != nil {
		s.keep(settlement.Key.Tenant, *settlement.Output, now)
	}
	return verdict, nil
}

// Renew implements dedupe.Store.
func (s *Store) Renew(ctx context.Context, key dedupe.Key, owner string, epoch int64, lease time.Duration) (bool, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	current := s.find(key, now)
	next, ok := current.Renew(owner, epoch, lease, now)
	if ok {
		s.put(key, next, current.retention, now)
	}
	return ok, nil
}

// Restore implements dedupe.Store.
func (s *Store) Restore(ctx context.Context, back dedupe.Restoration) (dedupe.Record, bool, error) {
	if err := back.Validate(knowledge); err != nil {
		return dedupe.Record{}, false, err
	}
	now, err := s.begin(ctx)
	if err != nil {
		return dedupe.Record{}, false, err
	}
	defer s.mu.Unlock()
	next, restored := s.find(back.Key, now).Restore(back, now)
	if restored {
		s.put(back.Key, next, back.Retention, now)
		s.move(back.Key, dedupe.Record{}.Moves(next), back.Retention, now)
		if name := effectOf(back.Key, &back.EffectKey); back.EffectKey != (dedupe.EffectKey{}) {
			s.hold(name, dedupe.Held(s.holding(name, now), back.Key), back.EffectKey.Keep(back.Retention), now)
		}
	}
	return next, restored, nil
}

// Lookup implements dedupe.Store.
func (s *Store) Lookup(ctx context.Context, key dedupe.Key) (dedupe.Record, error) {
	seen, err := s.See(ctx, key)
	return seen.Record, err
}

// See implements conversation.Store.
func (s *Store) See(ctx context.Context, key dedupe.Key) (dedupe.Seen, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return dedupe.Seen{}, err
	}
	defer s.mu.Unlock()
	r := s.find(key, now)
	return dedupe.Seen{Record: r.Observed(now), Stored: r.stored(), Now: now}, nil
}

// stored is the record as other stores keep it; nothing where there is none.
func (r *record) stored() []byte {
	if r.State == dedupe.Absent {
		return nil
	}
	return (&dedupe.Stored{Record: r.Record, Retention: r.retention}).AppendSealed(nil)
}

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
	for key := range s.records {
		if r := s.find(key, now).Observed(now); r.State == dedupe.Unknown {
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
	kept, ok := s.outputs[outputKey{tenant, ref}]
	if !ok || !now.Before(kept.expires) {
		return dedupe.Output{}, dedupe.ErrNoOutput
	}
	kept.TTL = kept.expires.Sub(now)
	return kept.Output, nil
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
	s.records, s.outputs, s.outputBytes, s.sheets = nil, nil, 0, nil
	s.recordQueue, s.outputQueue, s.sheetQueue = nil, nil, nil
	s.effects, s.effectQueue = nil, nil
	s.transcripts, s.transcriptQueue = nil, nil
	return nil
}
