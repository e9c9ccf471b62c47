package call

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/failpoint"
	"github.com/sidecall/sidecall/internal/telemetry"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Decision is what a person says of a held call. Hold and Fingerprint, where they are not empty,
// are those that were looked at.
type Decision struct {
	By, Reason        string
	Hold, Fingerprint string
	Deny              bool
}

// Decide allows or denies one held call, for a user whom the front has verified. Its errors are
// Faults, or that of ctx.
func (e Settlements) Decide(ctx context.Context, key tool.CallID, user string, d Decision) (*sidecallv1.Execution, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	lease := e.Catalog.Lease()
	defer lease.Release()
	w, err := e.heldCall(ctx, lease.Snapshot, key)
	if err != nil {
		return nil, err
	}
	defer w.leave()
	if err := d.fits(w.record); err != nil {
		return nil, err
	}
	made := w.decision(w.settledBy(user, d.By), d)
	failpoint.Hit(failpoint.DecisionUnsent)
	decided, err := e.decideAs(ctx, w, made)
	failpoint.Hit(failpoint.DecisionDurable)
	e.tellDecided(ctx, w, made, decided, err)
	if err := e.unlessSettled(ctx, key, decided, err, e.undecided); err != nil {
		return nil, err
	}
	return e.executionOr(ctx, w.record, key), nil
}

// check refuses what cannot be written down.
func (d *Decision) check() error {
	for _, text := range [...]struct {
		field, value, why string
		most              int
	}{
		{"decided_by", d.By, "say who decides, for whoever reads the record later", maxOperator},
		{"reason", d.Reason, "say why, for whoever reads the record later", maxReason},
	} {
		if oneLine(text.value) == "" {
			return fault(Invalid, "%s: is required: %s", text.field, text.why)
		}
		if n := utf8.RuneCountInString(text.value); n > text.most {
			return fault(Invalid, "%s: %d characters, at most %d are taken", text.field, n, text.most)
		}
	}
	if d.Fingerprint != "" && len(d.Fingerprint) < shownPrint {
		return fault(Invalid, "fingerprint: %d characters: send the %d or more that are listed", len(d.Fingerprint), shownPrint)
	}
	return nil
}

// shownPrint is how much of a fingerprint is listed, in hexadecimal digits.
const shownPrint = 12

// fits reports that a held call is not the one that was looked at, or decided already.
func (d *Decision) fits(record dedupe.Record) error {
	switch held := hex.EncodeToString(record.Fingerprint[:]); {
	case d.Fingerprint != "" && !strings.HasPrefix(held, strings.ToLower(d.Fingerprint)):
		return fault(NotNow, "fingerprint: the call is held with other arguments (%s) than were looked at: look at it anew", held[:shownPrint])
	case d.Hold != "" && d.Hold != record.Owner:
		return fault(NotNow, "hold: the call is held anew since it was looked at, until %s: look at it anew", told(record.LeaseUntil))
	case !d.Deny && record.Approved():
		by := approvalOf(record)
		return fault(NotNow, "the call is allowed already, by %s (%s), until %s, and was not sent since", decider(by), by.GetReason(), told(record.LeaseUntil))
	}
	return nil
}

// told is an instant as errors have it.
func told(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// decider names who has decided: by the name that they gave, and the user that they are. One that
// nobody has verified stands in brackets already.
func decider(made *sidecallv1.Resolution) string {
	if claimed := made.GetClaimedBy(); claimed != "" {
		return fmt.Sprintf("%s (%s)", claimed, strings.Trim(made.GetBy(), "()"))
	}
	return made.GetBy()
}

// decision is what is kept of it.
func (w unsettled) decision(by settler, d Decision) *sidecallv1.Resolution {
	made := &sidecallv1.Resolution{
		By: by.user, ClaimedBy: by.claimed, Reason: explain.Cleaned(w.route.Secrets, oneLine(d.Reason), maxReason),
		At: timestamppb.Now(), State: sidecallv1.ExecutionState_EXECUTION_STATE_HELD,
	}
	if d.Deny {
		made.State = sidecallv1.ExecutionState_EXECUTION_STATE_DONE
	}
	return made
}

// decideAs writes a decision down. False when the call is no longer the one that was looked at.
func (e Settlements) decideAs(ctx context.Context, w unsettled, made *sidecallv1.Resolution) (bool, error) {
	listed := dedupe.Listed{Key: w.Key, Record: w.record}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), SettleTimeout)
	defer cancel()
	state, kept := dedupe.Held, proto.Message(made)
	if made.GetState() == sidecallv1.ExecutionState_EXECUTION_STATE_DONE {
		a := result.For{ID: w.Key.ID}.Refused(w.subject().Denied(decider(made), made.GetReason(), w.record.MayHaveRun()), 0)
		a.Recorded, a.Resolution = true, made
		state, kept = dedupe.Done, rendered(a)
	}
	encoded, err := proto.Marshal(kept)
	if err != nil {
		return false, err
	}
	verdict, err := e.Dedupe.Resolve(ctx, listed, state, encoded)
	return verdict == dedupe.Settled, err
}

// tellDecided tells operators of a decision, as of a resolution.
func (e Settlements) tellDecided(ctx context.Context, w unsettled, made *sidecallv1.Resolution, decided bool, lost error) {
	if lost == nil && !decided {
		return
	}
	to := "denied"
	if made.GetState() == sidecallv1.ExecutionState_EXECUTION_STATE_HELD {
		to = "approved"
	}
	e.Recorder.Resolved(ctx, telemetry.Resolution{
		By: made.GetBy(), Claimed: made.GetClaimedBy(), Kind: "operator", Reason: made.GetReason(),
		Tool: w.record.Tool, CallID: w.Key, From: dedupe.Held.String(), To: to, Epoch: w.record.Epoch, Unconfirmed: lost,
	})
}

// heldCall returns a held call, with its record; or why it is none.
func (e Records) heldCall(ctx context.Context, snapshot *catalog.Snapshot, key tool.CallID) (unsettled, error) {
	record, err := e.settled(ctx, key)
	if err == nil {
		err = e.notHeld(ctx, key, record)
	}
	if err != nil {
		return unsettled{}, err
	}
	return unsettled{newCall(snapshot, Request{Use: tool.Use{Key: key, Tool: record.Tool}}).spokenOf(record.Effect), record}, nil
}

// undecided says why a decision has changed nothing, by what the call is now.
func (e Records) undecided(ctx context.Context, key tool.CallID, record dedupe.Record) error {
	if err := e.notHeld(ctx, key, record); err != nil {
		return err
	}
	return fault(Changed, "the call has changed in this moment: it is held anew, or decided by another; look at it anew")
}

// notHeld says what a call is that is not held, and what to do.
func (e Records) notHeld(ctx context.Context, key tool.CallID, record dedupe.Record) error {
	id := tool.Quote(key.ID)
	switch record.State {
	case dedupe.Held:
		return nil
	case dedupe.Absent:
		return e.neverStarted(ctx, key)
	case dedupe.Claimed:
		return fault(NotNow, "the call %s is claimed: %s is running it; nobody is asked any more", id, record.Owner)
	case dedupe.NotRun:
		if record.Lapsed {
			return fault(NotNow, "the call %s was held until %s, and that is over: nothing was sent; sent again it is held anew", id, told(record.FinishedAt))
		}
		return fault(NotNow, "the call %s is not_run: nobody is asked; sent again with its id it runs, or is held", id)
	case dedupe.Unknown:
		return fault(NotNow, "the call %s is unknown: it was sent, and nobody knows whether it has happened; nobody is asked, resolve it", id)
	case dedupe.Closed:
		return fault(NotNow, "the call %s is closed, since %s: its conversation has answered it, and it does not run any more; what is still wanted needs a new id", id, told(record.FinishedAt))
	case dedupe.Done:
		return fault(NotNow, "the call %s is done already, since %s, and that is final: GetExecution has its result", id, told(record.FinishedAt))
	}
	panic(fmt.Sprintf("a record in no state: %s", record.State))
}

// HeldCall describes one held call. Its errors are Faults, or that of ctx.
func (e Records) HeldCall(ctx context.Context, key tool.CallID) (*sidecallv1.HeldExecution, error) {
	w, err := e.heldCall(ctx, e.Catalog.Snapshot(), key)
	if err != nil {
		return nil, err
	}
	defer w.leave()
	return e.Held(dedupe.Listed{Key: key, Record: w.record}), nil
}

// Held describes a call of a listing that is held; nil for one that waits for something else.
func (e Records) Held(listed dedupe.Listed) *sidecallv1.HeldExecution {
	record := listed.Record
	if listed.Err != nil || record.State != dedupe.Held {
		return nil
	}
	described := &sidecallv1.HeldExecution{
		Tenant: listed.Key.Tenant, ConversationId: listed.Key.Conversation, TurnId: listed.Key.Turn, ToolUseId: listed.Key.ID,
		Execution: result.Execution(record), Fingerprint: hex.EncodeToString(record.Fingerprint[:shownPrint/2]),
		Hold: holdOf(askedOf(record)), Details: detailsOf(record),
	}
	described.Execution.Approval = approvalOf(record)
	return described
}
