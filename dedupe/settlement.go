package dedupe

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// Origin is a claim as it was made, for a store that has forgotten it: after a failover, say,
// or when its clock has jumped past the retention.
type Origin struct {
	Record Record
	// EffectKey is that of the call's request. The call holds the effect again, whoever has
	// been allowed to have it meanwhile.
	EffectKey EffectKey
	Terms     []Term // that it can be found by
}

// Renewal asks for more time for a claim. See Record.Renew.
type Renewal struct {
	Key   tool.CallID
	Claim Origin
	// Lease is how long the claim holds from now, Retention how long its record is remembered
	// if it is restored.
	Lease, Retention time.Duration
}

// Settlement ends a claim.
type Settlement struct {
	Key   tool.CallID
	Owner string
	// Epoch is the claim's. 0 is whatever epoch the owner holds, for one that never learned
	// whether its Admit was heard, has sent nothing, and gives a possible claim back as NotRun.
	Epoch     int64
	State     State // Done, NotRun, Unknown or Held
	Attempts  int
	Result    []byte
	Details   []byte // that take the place of the claim's; nil where those stay
	Retention time.Duration
	// Resolves says that somebody other than the owner has found out what became of an Unknown
	// call, or decides about a Held one. Owner and Epoch are those of the record that was looked at.
	Resolves bool
	By       string        // an owner of the incarnation that resolves it
	Approval []byte        // who allows a Held call, and why, where that is the resolution
	HoldFor  time.Duration // how long the owner's call is Held: see Hold
	Claim    *Origin       // when not nil, what is settled
	Output   *Output       // when not nil, kept in the same round trip
	// Tokens of its output are added to the tally in which its claim counts, unless that is
	// forgotten. Like Appends, at most MaxLogs, they take effect once.
	Tokens  int64
	Appends []Append
	// Receipt says that it leaves one, where the call has an effect and a conversation.
	Receipt bool
	// Frees is the effect that the call held and, as is proven now, has not had. Its window and
	// Allow say nothing.
	Frees EffectKey
}

// Output is a full tool output that was cut for the model.
type Output struct {
	Ref      string // unguessable and unique
	Data     []byte
	Complete bool // false when Data itself stops at the keep limit
	TTL      time.Duration
}

// SettleVerdict is the answer to a Settlement.
type SettleVerdict uint8

const (
	Settled     SettleVerdict = iota + 1 // the record holds this settlement, now or already
	SettledAnew                          // the same, of a call that the store had forgotten
	// Superseded: the claim is no longer this owner's, or the record is in a state that this
	// settlement may not leave. Nothing was changed, and the settlement's Output was not kept.
	Superseded
	// Journaled is the verdict of Claim.Settle alone: the store could not be reached in time, and
	// gets the settlement from the journal, or from memory (Options.LateBytes).
	Journaled
)

// LogValue shows which call a settlement is of and how it ended; its words stay out of the log.
func (s Settlement) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("tenant", s.Key.Tenant), slog.String("conversation", s.Key.Conversation),
		slog.String("turn", s.Key.Turn), slog.String("tool_use_id", s.Key.ID),
		slog.String("state", s.State.String()), slog.Int64("epoch", s.Epoch))
}

// Validate reports what a store cannot accept; the error wraps ErrInvalid.
func (s *Settlement) Validate() error {
	if s.State != Done && s.State != NotRun && s.State != Unknown && s.State != Held ||
		s.Epoch == 0 && (s.State == NotRun) == s.Resolves || s.State == Unknown && (s.Resolves || !s.Frees.none()) {
		return fmt.Errorf("%w: a settlement as %v of epoch %d, which is a resolution: %v; frees an effect: %v",
			ErrInvalid, s.State, s.Epoch, s.Resolves, !s.Frees.none())
	}
	asks, allows := s.State == Held && !s.Resolves, s.State == Held && s.Resolves
	if asks != (s.HoldFor > 0) || allows != (len(s.Approval) > 0) || asks && s.Attempts > 0 {
		return fmt.Errorf("%w: a settlement as %v for %v after %d attempts, with an approval of %d bytes, which is a resolution: %v",
			ErrInvalid, s.State, s.HoldFor, s.Attempts, len(s.Approval), s.Resolves)
	}
	if c := s.Claim; c != nil && (c.Record.Owner != s.Owner || c.Record.Epoch != s.Epoch || s.State == Unknown && c.Record.Effect.Repeatable()) {
		return fmt.Errorf("%w: a settlement as %v with the claim of another, or of what may be repeated", ErrInvalid, s.State)
	}
	return cmp.Or(
		validKey(&s.Key),
		between("an epoch", s.Epoch, 0, math.MaxInt64),
		between("bytes of an owner", len(s.Owner), 1, MaxNameBytes),
		between("bytes of a result", len(s.Result), 0, MaxResultBytes),
		between("bytes of details", len(s.Details), 0, MaxDetailsBytes),
		between("attempts", s.Attempts, 0, math.MaxInt32),
		between("bytes of an approval", len(s.Approval), 0, MaxApprovalBytes),
		between("how long a call is held", s.HoldFor, 0, s.Retention),
		between("a retention", s.Retention, time.Millisecond, longest),
		s.validateLoop(),
		s.Output.validate())
}

// unheld returns the settlement as who cannot keep a hold takes it: what was Held has not run.
func (s Settlement) unheld() Settlement {
	if s.State == Held {
		s.State, s.HoldFor = NotRun, 0
	}
	return s
}

// alone returns the settlement without what it tells the loop around the call, and unheld: it
// may reach the store much later.
func (s Settlement) alone() Settlement {
	s = s.unheld()
	s.Tokens, s.Appends = 0, nil
	return s
}

func (s *Settlement) validateLoop() error {
	return cmp.Or(
		holds(&s.Key, len(s.Appends) > 0),
		between("tokens that are spent", s.Tokens, 0, MaxTokens),
		validateAppends(s.Appends))
}

func (o *Output) validate() error {
	if o == nil {
		return nil
	}
	return cmp.Or(
		between("bytes of the reference of an output", len(o.Ref), 1, MaxNameBytes),
		between("bytes of an output", len(o.Data), 0, MaxOutputBytes),
		between("the time that an output is kept", o.TTL, time.Millisecond, longest))
}
