package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// Do implements dedupe.Engine: one step at a time.
func (s *Store) Do(ctx context.Context, step dedupe.Step) error {
	now, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	return step.Apply(&rows{s, now})
}

// Look implements dedupe.Engine.
func (s *Store) Look(ctx context.Context, step dedupe.Step) error { return s.Do(ctx, step) }

// rows are those of a store whose lock is held, at an instant. They are changed as they
// are set: what a step may fail for, it does first.
type rows struct {
	store *Store
	now   time.Time
}

// logKey names a log.
type logKey struct{ tenant, conversation, name string }

func (r *rows) Now() time.Time { return r.now }

func (r *rows) Call(key dedupe.Key) (dedupe.Stored, error) {
	stored, _ := r.store.records.get(key, r.now)
	return stored, nil
}

func (r *rows) SetCall(key dedupe.Key, record *dedupe.Record, retention time.Duration) error {
	s := r.store
	if _, held := s.records.held(key); !held && len(s.records.entries) >= s.options.MaxRecords {
		return fmt.Errorf("%w: it holds %d records", dedupe.ErrFull, len(s.records.entries))
	}
	stored := dedupe.Stored{Record: *record, Retention: retention}
	stored.Result = bytes.Clone(stored.Result)
	s.records.put(key, stored, r.now.Add(retention))
	return nil
}

// Confirm: nothing is safer than it was.
func (*rows) Confirm(dedupe.Key) {}

// Awaited: in this process everybody who waits is told by package dedupe.
func (*rows) Awaited(dedupe.Key) {}

// sheets returns the shelf of a sheet. Who holds an effect gives way to nobody: as long
// as there is room for the record of a call there is for its effect, of which there are
// two at the most for each record in the time that both are remembered.
func (r *rows) sheets(name dedupe.Sheet) *shelf[dedupe.Sheet, string] {
	if name.Kind == dedupe.EffectSheet {
		return &r.store.effects
	}
	return &r.store.sheets
}

func (r *rows) Sheet(name dedupe.Sheet) (string, error) {
	body, _ := r.sheets(name).get(name, r.now)
	return body, nil
}

func (r *rows) SetSheet(name dedupe.Sheet, body string, keep time.Duration) error {
	sheets, expires := r.sheets(name), r.now.Add(keep)
	if keep == 0 {
		expires = sheets.entries[name].expires
	}
	sheets.put(name, body, expires)
	r.bound()
	return nil
}

// bound lets the tallies and logs that expire first give way when there are as many of a
// kind as there may be records.
func (r *rows) bound() {
	for len(r.store.sheets.entries) > r.store.options.MaxRecords {
		r.store.sheets.dropFirst()
	}
	for len(r.store.logs.entries) > r.store.options.MaxRecords {
		r.store.logs.dropFirst()
	}
}

func (r *rows) Append(key dedupe.Key, a dedupe.Append, keep time.Duration) error {
	name := logKey{key.Tenant, key.Conversation, a.Log}
	entries, _ := r.store.logs.get(name, r.now)
	// Behind all that was told of it: what somebody has read stays as it was.
	entries = append(slices.Clip(entries), bytes.Clone(a.Entry))
	r.store.logs.put(name, entries[max(0, len(entries)-a.Keep):], r.now.Add(keep))
	r.bound()
	return nil
}

func (r *rows) Logs(key dedupe.Key, names []string, into *dedupe.Logs) error {
	if len(names) == 0 {
		return nil
	}
	*into = make(dedupe.Logs, len(names))
	for i, name := range names {
		(*into)[i], _ = r.store.logs.get(logKey{key.Tenant, key.Conversation, name}, r.now)
	}
	return nil
}

func (r *rows) Keep(tenant string, output *dedupe.Output) error {
	s, name := r.store, outputKey{tenant, output.Ref}
	kept := *output
	kept.Data = bytes.Clone(kept.Data)
	old, _ := s.outputs.held(name)
	s.outputBytes += int64(len(kept.Data) - len(old.Data))
	s.outputs.put(name, kept, r.now.Add(kept.TTL))
	for s.outputBytes > s.options.MaxOutputBytes {
		s.outputBytes -= int64(len(s.outputs.dropFirst().Data))
	}
	return nil
}
