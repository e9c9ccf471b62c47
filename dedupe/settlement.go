package dedupe

import (
	"fmt"
	"log/slog"
	"math"
	"time"
)

// Settlement ends a claim.
type Settlement struct {
	Key   Key
	Owner string
	// Epoch is the claim's. 0 means whatever epoch the owner holds, and is for
	// one case only: an owner that never learned whether its Admit was heard,
	// has sent nothing, and gives a possible claim back as NotRun.
	Epoch int64
	// State is Done, NotRun or Unknown.
	State     State
	Attempts  int
	Result    []byte
	Retention time.Duration
	// Resolves says that somebody other than the owner has found out what became
	// of an Unknown call: an operator, or a configured check. Owner and Epoch
	// are those of the record that was looked at, State is Done or NotRun.
	Resolves bool
	// Claim, when not nil, is what is settled, for a store that has forgotten it: see
	// Record.SettleLate.
	Claim *Origin
	// Output, when not nil, is kept for ReadOutput in the same round trip.
	Output *Output
	// Spend adds the tokens of the output to a tally.
	Spend Spend
	// Appends are entries for logs of the call's conversation. Like Spend they take
	// effect once, with the settlement; at most MaxLogs.
	Appends []Append
	// Frees is the effect that the call held and, as is proven now, has not had:
	// another call may have it from now on. Its window and Allow say nothing.
	Frees EffectKey
}

// Spend is what the output of a call will cost the loop in tokens, as far as can
// be told from here.
type Spend struct {
	// Counter names the tally; empty for none. One that is not there stays so.
	Counter string
	// Tokens are 1 to MaxTokens.
	Tokens int64
}

// Output is a full tool output that was cut for the model.
type Output struct {
	// Ref is unguessable and unique.
	Ref  string
	Data []byte
	// Complete is false when Data itself stops at the keep limit.
	Complete bool
	TTL      time.Duration
}

// SettleVerdict is the answer to a Settlement.
type SettleVerdict uint8

const (
	// Settled: the record holds this settlement, now or already.
	Settled SettleVerdict = iota + 1
	// SettledAnew is Settled, of a call that the store had forgotten.
	SettledAnew
	// Superseded: the claim is no longer this owner's, or the record is in a
	// state that this settlement may not leave. Nothing was changed, and the
	// settlement's Output was not kept.
	Superseded
	// Journaled is the verdict of Claim.Settle alone, no store gives it: the
	// store could not be reached in time, the settlement is durable in the
	// journal, and the store gets it from there. Without a journal it may wait in
	// memory, see Options.LateBytes.
	Journaled
)

// LogValue shows which call a settlement is of and how it ended; what it says
// stays out of the log.
func (s Settlement) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("tenant", s.Key.Tenant), slog.String("conversation", s.Key.Conversation),
		slog.String("turn", s.Key.Turn), slog.String("tool_use_id", s.Key.ID),
		slog.String("state", s.State.String()), slog.Int64("epoch", s.Epoch))
}

// Validate reports what a store cannot accept; the error wraps ErrInvalid.
func (s Settlement) Validate() error {
	if err := s.Key.validate(); err != nil {
		return err
	}
	switch {
	case s.State != Done && s.State != NotRun && s.State != Unknown:
		return fmt.Errorf("%w: a call cannot be settled as %v", ErrInvalid, s.State)
	case s.Epoch < 0 || s.Epoch == 0 && s.State != NotRun:
		return fmt.Errorf("%w: a settlement as %v without the epoch of its claim", ErrInvalid, s.State)
	case s.Resolves && (s.State == Unknown || s.Epoch == 0):
		return fmt.Errorf("%w: a resolution as %v at epoch %d", ErrInvalid, s.State, s.Epoch)
	case s.Owner == "" || len(s.Owner) > MaxNameBytes:
		return fmt.Errorf("%w: an owner of %d bytes, want 1 to %d", ErrInvalid, len(s.Owner), MaxNameBytes)
	case len(s.Result) > MaxResultBytes:
		return fmt.Errorf("%w: a result of %d bytes, want at most %d", ErrInvalid, len(s.Result), MaxResultBytes)
	case s.Attempts < 0 || s.Attempts > math.MaxInt32:
		return fmt.Errorf("%w: %d attempts", ErrInvalid, s.Attempts)
	case s.Retention < time.Millisecond:
		return fmt.Errorf("%w: a retention of %v, want at least 1ms", ErrInvalid, s.Retention)
	case s.State == Unknown && !s.Frees.none():
		return fmt.Errorf("%w: an effect is free that nobody knows of", ErrInvalid)
	}
	if err := s.validateLoop(); err != nil {
		return err
	}
	if err := s.validateClaim(); err != nil {
		return err
	}
	return s.Output.validate()
}

// alone returns the settlement without what it tells the loop around the call.
func (s Settlement) alone() Settlement {
	s.Spend, s.Appends, s.Frees = Spend{}, nil, EffectKey{}
	return s
}

// validateLoop looks at what belongs to a conversation.
func (s *Settlement) validateLoop() error {
	if s.Key.Conversation == "" && (s.Spend != (Spend{}) || len(s.Appends) > 0) {
		return fmt.Errorf("%w: something is spent or appended without a conversation, to which tallies and logs belong", ErrInvalid)
	}
	if err := s.Spend.validate(); err != nil {
		return err
	}
	return validateAppends(s.Appends)
}

func (s Spend) validate() error {
	switch {
	case s == Spend{}:
		return nil
	case s.Counter == "" || len(s.Counter) > MaxCounterBytes:
		return fmt.Errorf("%w: the name of a counter has %d bytes, want 1 to %d", ErrInvalid, len(s.Counter), MaxCounterBytes)
	case s.Tokens < 1 || s.Tokens > MaxTokens:
		return fmt.Errorf("%w: %d tokens spent, want 1 to %d", ErrInvalid, s.Tokens, int64(MaxTokens))
	}
	return nil
}

func (o *Output) validate() error {
	switch {
	case o == nil:
		return nil
	case o.Ref == "" || len(o.Ref) > MaxNameBytes:
		return fmt.Errorf("%w: an output reference of %d bytes, want 1 to %d", ErrInvalid, len(o.Ref), MaxNameBytes)
	case len(o.Data) > MaxOutputBytes:
		return fmt.Errorf("%w: an output of %d bytes, want at most %d", ErrInvalid, len(o.Data), MaxOutputBytes)
	case o.TTL < time.Millisecond:
		return fmt.Errorf("%w: an output kept for %v, want at least 1ms", ErrInvalid, o.TTL)
	default:
		return nil
	}
}
