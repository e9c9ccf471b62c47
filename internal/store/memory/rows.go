package memory

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// Do implements dedupe.Engine: one step at a time.
func (s *Store) Do(ctx context.Context, step dedupe.Step) error {
	_, err := with(ctx, s, func(now time.Time) (none struct{}, err error) {
		s.at.now = now
		return none, step.Apply(&s.at)
	})
	return err
}

// Look implements dedupe.Engine.
func (s *Store) Look(ctx context.Context, step dedupe.Step) error { return s.Do(ctx, step) }

// rows are those of a store whose lock is held, at an instant. They are changed as they
// are set: what a step may fail for, it does first.
type rows struct {
	*Store

	now time.Time
}

func (r *rows) Now() time.Time { return r.now }

func (r *rows) Call(key tool.CallID) (dedupe.Stored, error) {
	stored, _ := r.records.get(key, r.now)
	return stored, nil
}

func (r *rows) SetCall(key tool.CallID, record *dedupe.Record, retention time.Duration) error {
	if !r.records.fits(key, 0, r.options.MaxRecords, 0) {
		return fmt.Errorf("%w: it holds %d records", dedupe.ErrFull, len(r.records.entries))
	}
	stored := dedupe.Stored{Record: *record, Retention: retention}
	stored.Result = bytes.Clone(stored.Result)
	r.records.put(key, stored, 0, r.now.Add(retention))
	return nil
}

// Confirm: nothing is safer than it was.
func (*rows) Confirm(tool.CallID) {}

// Awaited: in this process everybody who waits is told by package dedupe.
func (*rows) Awaited(tool.CallID) {}

func (r *rows) sheets(name dedupe.Sheet) *shelf[dedupe.Sheet, string] {
	if name.Kind == dedupe.EffectSheet {
		return &r.effects
	}
	return &r.tallies
}

func (r *rows) Sheet(name dedupe.Sheet) (string, error) {
	body, _ := r.sheets(name).get(name, r.now)
	return body, nil
}

// SetSheet implements dedupe.Rows. The tallies and logs that expire first give way when there
// are as many of a kind as there may be records. Who holds an effect gives way to nobody: as
// long as there is room for the record of a call there is for its effect, of which there are
// two at the most for each record in the time that both are remembered.
func (r *rows) SetSheet(name dedupe.Sheet, body string, keep time.Duration) error {
	expires := r.now.Add(keep)
	if keep == 0 {
		expires = time.Time{}
	}
	r.sheets(name).put(name, body, 0, expires)
	r.tallies.bound(r.options.MaxRecords, 0)
	return nil
}

func (r *rows) Append(key tool.CallID, a dedupe.Append, keep time.Duration) error {
	name := logSheet(key, a.Log)
	entries, _ := r.logs.get(name, r.now)
	// Behind all that was told of it: what somebody has read stays as it was.
	entries = append(slices.Clip(entries), bytes.Clone(a.Entry))
	r.logs.put(name, entries[max(0, len(entries)-a.Keep):], 0, r.now.Add(keep))
	r.logs.bound(r.options.MaxRecords, 0)
	return nil
}

func (r *rows) Logs(key tool.CallID, names []string, into *dedupe.Logs) error {
	for _, name := range names {
		entries, _ := r.logs.get(logSheet(key, name), r.now)
		*into = append(*into, entries)
	}
	return nil
}

func logSheet(key tool.CallID, name string) dedupe.Sheet {
	return dedupe.Sheet{Tenant: key.Tenant, Conversation: key.Conversation, Name: name}
}

func (r *rows) Keep(tenant string, output *dedupe.Output) error {
	kept := *output
	kept.Data = bytes.Clone(kept.Data)
	r.outputs.put(outputKey{tenant, output.Ref}, kept, int64(len(kept.Data)), r.now.Add(kept.TTL))
	r.outputs.bound(math.MaxInt, r.options.MaxOutputBytes)
	return nil
}
