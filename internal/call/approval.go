package call

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/rules"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// hold is what a person is to be asked before the call; nil where nobody need be. Where the
// condition cannot be evaluated one is.
func (c *checked) hold() *dedupe.Hold {
	policy := &c.route.Tool.Policy
	if c.effect() == tool.ReadOnly {
		return nil
	}
	if approval := c.route.Approval; approval != nil {
		asks, why := approval.Asks(c.values)
		reason := "approve_when: " + approval.String()
		if why != nil {
			c.log.cause = why
			reason += ", which cannot be evaluated for these arguments"
		}
		if asks {
			return &dedupe.Hold{For: policy.ApprovalTTL, Result: c.question(reason)}
		}
	}
	if policy.ConfirmAfter > 0 {
		return &dedupe.Hold{For: policy.ApprovalTTL, Standing: true}
	}
	return nil
}

// heldAfter is the hold of a call of which it was only asked, by what a rule says of its prompt; nil
// where nobody has to be asked, or somebody has allowed it.
func (c *checked) heldAfter(heard rules.Heard) *dedupe.Hold {
	heard.Asked = true
	refused := c.rules.hear(nil, heard)
	if refused == nil {
		return nil
	}
	return &dedupe.Hold{For: c.route.Tool.Policy.ApprovalTTL, Result: c.question(refused.Hold.GetReason())}
}

// mayRun answers a call that nobody has to be asked of, and of which no more was to be known.
func (c *admitted) mayRun() *answer {
	valid := c.result().Valid(c.route.Tool.Name, c.notes)
	valid.Approval = c.approval
	return valid
}

// question is what the record of a held call keeps of what is asked: until when, its record says.
func (c resolved) question(reason string) []byte {
	a := c.asking(explain.Hold{Why: reason})
	a.LastTook(time.Time{}, time.Time{})
	encoded, err := proto.Marshal(rendered(a))
	if err != nil { // as in put
		c.log.cause = err
	}
	return encoded
}

// asking answers a call that a person has to allow first.
func (c resolved) asking(h explain.Hold) *answer {
	a := c.result().Refused(c.subject().Held(h), 0)
	a.Hold, a.Recorded = holdOf(h), true
	return a
}

// holdOf is a hold as the contract has it.
func holdOf(h explain.Hold) *sidecallv1.Hold {
	hold := &sidecallv1.Hold{Reason: h.Why, Approved: h.Allowed}
	if !h.Until.IsZero() {
		hold.ExpiresAt = timestamppb.New(h.Until)
	}
	return hold
}

// held is what is told of a call that is held.
func (r recorded) held() *answer {
	return r.asking(askedOf(r.Record))
}

// askedOf is what a person is asked of a held call.
func askedOf(record dedupe.Record) explain.Hold {
	h := explain.Hold{
		Why: "its tool asks for that", Until: record.LeaseUntil, Allowed: record.Approved(), MayHaveRun: record.MayHaveRun(),
	}
	asked, err := result.Recorded(record)
	if reason := asked.GetHold().GetReason(); err == nil && reason != "" {
		h.Why = reason
	}
	return h
}

// refusedAfterClaim ends a call that a rule has refused once it was claimed: nothing was sent.
// Where a person is to be asked its claim is settled as held.
func refusedAfterClaim(refused *answer) ending {
	if refused.Hold != nil {
		return ending{answer: refused, state: dedupe.Held}
	}
	return ending{answer: refused, state: dedupe.NotRun}
}

// decided reports that a person is asked of a call, or has allowed it, with the arguments as they
// were read then: read otherwise, by a schema that has changed since, it is another call.
func decided(record dedupe.Record) bool {
	return record.State == dedupe.Held || record.State == dedupe.NotRun && record.Approved()
}

// approvalOf is who has allowed a call, and why; nil when nobody has.
func approvalOf(record dedupe.Record) *sidecallv1.Resolution {
	if !record.Approved() {
		return nil
	}
	approval := new(sidecallv1.Resolution)
	if proto.Unmarshal(record.Approval, approval) != nil {
		return nil
	}
	return approval
}
