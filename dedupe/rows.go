package dedupe

import (
	"context"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// Rows are what an engine keeps, as one step reads and changes it: all at one instant of the
// engine's clock, and all of it or nothing. They are valid while Step.Apply runs. An engine
// only keeps them: every rule about them is in this package. What cannot be read or written
// fails the step by itself: what is read from then on counts for nothing.
type Rows interface {
	// Now is the engine's time, the same for the whole step: that at which it is decided. It may
	// take effect a little later.
	Now() time.Time
	// Call returns the record of a call with its result; Absent when there is none.
	Call(key tool.CallID) Stored
	// SetCall stores a record for the retention from now, with 0 the one that is there once more, for
	// as long as it is kept anyway; and makes its call found by terms, if there are any, for
	// IndexKeep of that at least: see Store.Find. An engine whose steps take effect a little after
	// Now moves the instants of the record that are not before it; they are right when the step is
	// done.
	SetCall(key tool.CallID, record *Record, retention time.Duration, terms []Term)
	// Awaited notes that somebody waits for the end of a call that is Claimed, for an
	// engine that can tell others of it (Watcher). It is a hint.
	Awaited(key tool.CallID)
	// Value returns a value; empty when there is none.
	Value(name ValueKey) string
	// SetValue stores a value for keep from now; with 0, for as long as it is kept anyway.
	SetValue(name ValueKey, body string, keep time.Duration)
	// Keep keeps an output.
	Keep(tenant string, output *Output)
	// Append adds an entry to a log of the conversation of a call, kept for keep from now.
	Append(key tool.CallID, entry Append, keep time.Duration)
	// Logs fills in what stands in logs of the conversation of a call after the step, perhaps
	// only when Apply is over.
	Logs(key tool.CallID, names []string, into *Logs)

	// Fail fails the step, unless err is nil or it has failed before: nothing of it is written,
	// and Engine.Do returns err.
	Fail(err error)
}

// Kinds of values.
const (
	TallyValue  = 't' // a tally, under the name of its counter
	EffectValue = 'e' // the holders of an effect, under its print
	// ReceiptValue is a line of the receipts of a conversation, under its number; under 0 their
	// head.
	ReceiptValue = 'p'
	LogValue     = 'l' // a log, under its name: see Append and Logs
)

// ValueKey names a value that a conversation, or a tenant, has beside its records.
type ValueKey struct {
	Tenant       string
	Conversation string // empty for what is the whole tenant's
	Kind         byte
	Name         string
}

func tallyKey(key tool.CallID, counter string) ValueKey {
	return ValueKey{key.Tenant, key.Conversation, TallyValue, counter}
}

// LogKey names a log of the conversation of a call.
func LogKey(key tool.CallID, name string) ValueKey {
	return ValueKey{key.Tenant, key.Conversation, LogValue, name}
}

func effectKey(key tool.CallID, e *EffectKey) ValueKey {
	name := ValueKey{key.Tenant, key.Conversation, EffectValue, string(e.Print[:])}
	if e.WholeTenant {
		name.Conversation = ""
	}
	return name
}

// Step is a request as an engine runs it.
type Step struct {
	// Call is the call that it is of; whatever else it touches is of the same
	// conversation, or of the same tenant, as WholeTenant says.
	Call        tool.CallID
	WholeTenant bool
	// Apply reads and changes rows, and finds the answer. It may run again, on rows
	// as they are by then: the last run counts.
	Apply func(Rows)
	// Binds says, of the answer of the last Apply, that it may be told only when what it wrote cannot
	// be lost any more, by a failover say.
	Binds  bool
	Bytes  int    // roughly how many it writes
	Demand Demand // what it does to an engine that is full
}

// Demand is what a step asks of an engine that is full: those with the most are refused first.
type Demand int

const (
	Frees  Demand = iota // it ends what has its room already, or writes nothing
	Begins               // it takes room for something new, if it changes anything
	Keeps                // it keeps an output
)

// Engine keeps rows. Steps of the same rows come one after the other, and are durable when Do
// returns nil. An error that is not the step's own says nothing about whether it took effect;
// to do it again is always safe.
type Engine interface {
	Do(ctx context.Context, step *Step) error
}
