package histories

import (
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// Coverage counts what histories have shown; a proof whose histories never
// show a thing proves nothing about it.
type Coverage map[string]int

// The things that histories have to show.
const (
	SawWon        = "claims"
	SawNextEpoch  = "claims of a later epoch"
	SawReentry    = "claims asked for again"
	SawReplay     = "replays"
	SawInFlight   = "in flight"
	SawUnknown    = "unknown"
	SawMismatch   = "mismatches"
	SawSettled    = "settlements"
	SawResolved   = "resolutions"
	SawSuperseded = "superseded"
	SawRenewed    = "renewals"
	SawRefused    = "renewals refused"
	SawUnheard    = "without an answer"
	SawForgotten  = "forgotten"
	SawLost       = "expired claims"
	SawLate       = "late settlements"
	SawResent     = "perhaps sent again"
	SawReopened   = "reopened"
	SawRestored   = "restorations"
	SawClosed     = "closed calls"
	SawHeld       = "holds"
	SawMayRun     = "questions that nobody has to be asked"
	SawApproved   = "approvals"
	SawDenied     = "denials"
	SawAllowed    = "claims of what was approved"
	SawAsked      = "claims settled as held"
	SawSucceeded  = "decided under a predecessor's lease"
)

// Needed is what the histories of every store have to show.
var Needed = []string{
	SawWon, SawNextEpoch, SawReentry, SawReplay, SawInFlight, SawUnknown, SawMismatch, SawSettled, SawResolved,
	SawSuperseded, SawRenewed, SawRefused, SawUnheard, SawForgotten, SawLost, SawLate,
	SawRestored, SawSucceeded, SawClosed, SawHeld, SawMayRun, SawApproved, SawDenied, SawAllowed, SawAsked,
}

// Missing returns what of the names was never seen.
func (c Coverage) Missing(names []string) (missing []string) {
	for _, name := range names {
		if c[name] == 0 {
			missing = append(missing, name)
		}
	}
	return missing
}

// Note counts what an operation shows.
func (c Coverage) Note(op *Operation, p Plan) {
	if op.Sends > 0 {
		c[SawResent]++
	}
	switch {
	case op.Kind == Reopen:
		c[SawReopened]++
	case !op.Heard:
		c[SawUnheard]++
	case op.Kind == Admit:
		c.noteAdmit(op)
	case op.Kind == Lookup:
		if p.Retention < time.Hour && op.Seq > 0 && op.Record.State == dedupe.Absent {
			c[SawForgotten]++
		}
		if s := op.Record.State; op.Record.Finished != 0 && (s == dedupe.Unknown || s == dedupe.NotRun && op.Record.Epoch > 0) && op.Record.Attempts == 0 {
			c[SawLost]++
		}
	case op.Kind == Renew && op.OK:
		c[SawRestored]++
	case op.Kind == Close:
		if op.OK {
			c[SawClosed]++
		}
	case op.renewed():
		c[SawRenewed]++
	case op.Kind == Renew:
		c[SawRefused]++
	case !op.OK:
		c[SawSuperseded]++
	case op.To == dedupe.Held && op.Resolves:
		c[SawApproved]++
	case op.To == dedupe.Held:
		c[SawAsked]++
	case op.Resolves && op.Attempts == 0:
		c[SawDenied]++
	case op.Resolves:
		c[SawResolved]++
	default:
		c[SawSettled]++
	}
}

var verdictsSeen = map[dedupe.Verdict]string{
	dedupe.Won: SawWon, dedupe.Replay: SawReplay, dedupe.InFlight: SawInFlight,
	dedupe.OutcomeUnknown: SawUnknown, dedupe.Mismatch: SawMismatch, dedupe.AwaitsApproval: SawHeld,
	dedupe.MayRun: SawMayRun,
}

func (c Coverage) noteAdmit(op *Operation) {
	c[verdictsSeen[op.Verdict]]++
	r := op.Record
	if op.Verdict == dedupe.OutcomeUnknown && decides(op.Owner, r.Owner) && r.Finished-r.Started < int64(leastLease) {
		c[SawSucceeded]++ // nobody's lease can have run out
	}
	switch {
	case op.Verdict == dedupe.Won && r.Approval != "":
		c[SawAllowed]++
	case op.Verdict == dedupe.Won && r.Epoch > 1:
		c[SawNextEpoch]++
	case op.Verdict == dedupe.OutcomeUnknown && r.Attempts == 0:
		c[SawLost]++
	}
	if op.Verdict == dedupe.Won && r.Lease-r.Started != int64(op.Lease) {
		c[SawReentry]++
	}
}

// NoteLate counts the settlements by which the late owner of an expired claim
// made DONE of UNKNOWN: somebody had been told before that the outcome is
// unknown, and nobody else decided about that claim.
func (c Coverage) NoteLate(ops []Operation) {
	for i := range ops {
		late := &ops[i]
		if late.Kind != Settle || !late.Heard || !late.OK || late.Resolves || late.To != dedupe.Done {
			continue
		}
		unknown, resolved := false, false
		for j := range ops {
			before := &ops[j]
			if before.Key != late.Key {
				continue
			}
			r := before.Record
			unknown = unknown || before.Kind == Admit && before.Heard && before.Verdict == dedupe.OutcomeUnknown && before.Return < late.Call &&
				r.Owner == late.Owner && r.Epoch == late.Epoch && r.Attempts == 0
			resolved = resolved || before.Kind == Settle && before.Resolves && before.Owner == late.Owner && before.Epoch == late.Epoch
		}
		if unknown && !resolved {
			c[SawLate]++
		}
	}
}
