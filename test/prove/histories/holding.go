package histories

import "github.com/sidecall/sidecall/dedupe"

// asked is what who sends a held call is told.
const asked = "ask"

// begins: a call that nobody is at is asked for.
func (s state) begins(op *Operation, now span) outcome {
	if op.Hold == 0 || op.Standing || s.approval != "" {
		return s.claimed(op, now)
	}
	return s.heldAnew(op, now)
}

// heldAnew: a person is asked. What is known of attempts before stays.
func (s state) heldAnew(op *Operation, now span) outcome {
	held := state{
		kind: dedupe.Held, epoch: s.epoch, owner: op.Owner, content: op.Content, effect: s.effect, attempts: s.attempts,
		result: asked, finished: s.finished, ttl: op.Hold, clock: s.clock,
	}
	if s.kind == dedupe.Absent {
		held.effect = op.Effect
	}
	return outcome{
		next: held, verdict: dedupe.AwaitsApproval, now: now, starts: true, leases: true, lasts: op.Hold, changes: true, retention: op.Retention,
	}
}

// awaits: another asks for a held call. That a hold counts is judged between the call and the return
// too, but may be a little before the change that comes of it: see dedupe.Rows.Now.
func (s state) awaits(op *Operation, now span) (all []outcome) {
	if early, end := now.before(s.lease); !early.empty() && !end.empty() {
		held := s
		held.lease = end
		if op.Hold == 0 || s.approval != "" {
			all = append(all, held.claimed(op, now))
		} else {
			all = append(all, outcome{next: held, verdict: dedupe.AwaitsApproval, now: early})
		}
	}
	if late, end := now.notBefore(s.lease); !late.empty() && !end.empty() {
		over := s
		over.approval = ""
		all = append(all, over.begins(op, late))
	}
	return all
}

// decided: a person allows or denies a held call.
func (s state) decided(op *Operation, refused, accepted outcome) (all []outcome) {
	if op.To == dedupe.Held && s.approval == op.Approval {
		refused.ok = true
		return []outcome{refused}
	}
	if op.To != dedupe.Held && op.To != dedupe.Done || op.To == dedupe.Held && s.approval != "" {
		return []outcome{refused}
	}
	if early, end := refused.now.before(s.lease); !early.empty() && !end.empty() {
		if op.To == dedupe.Held {
			accepted.next = s
			accepted.next.approval = op.Approval
			accepted.starts, accepted.leases, accepted.lasts = false, true, s.ttl
		}
		all = append(all, accepted)
	}
	if late, end := refused.now.notBefore(s.lease); !late.empty() && !end.empty() {
		refused.now, refused.next.lease = late, end
		all = append(all, refused)
	}
	return all
}

// lapses is what who looks is told of a hold that is over, at its end.
func (s state) lapses(end span) state {
	s.kind, s.finished, s.lease, s.ttl, s.approval, s.result = dedupe.NotRun, end, span{}, 0, "", ""
	return s
}

// lost is a claim that another gets to after its lease, of an effect that may repeat.
func (s state) lost(op *Operation, late, end span, now bool) outcome {
	s.kind, s.attempts, s.finished, s.lease = dedupe.NotRun, max(s.attempts, 1), end, span{}
	o := s.begins(op, late)
	o.finishes = now && o.verdict == dedupe.AwaitsApproval
	return o
}

// mayRun is what who only asks is told in the place of a claim: the record, as who looks is told it.
func (s state) mayRun(claims []outcome) (all []outcome) {
	for _, o := range claims {
		if o.verdict != dedupe.Won {
			all = append(all, o)
			continue
		}
		for _, looked := range s.lookup(o.now) {
			looked.verdict = dedupe.MayRun
			all = append(all, looked)
		}
	}
	return all
}

// hold makes some of the requests ask a person first, or ask whether one has to be.
func (c *Client) hold(op *Operation) {
	op.Only = c.random.IntN(8) == 0
	if c.random.IntN(3) > 0 {
		return
	}
	op.Hold, op.Standing = min(2*pick(c.random, c.Leases), op.Retention), c.random.IntN(4) == 0
}

// decide allows or denies the held call that it was told of, or some other.
func (c *Client) decide(key int) Operation {
	seen := c.seen[key]
	op := c.settle(key, seen.Owner, seen.Epoch)
	op.Epoch, op.Attempts, op.Resolves, op.To = seen.Epoch, 0, true, dedupe.Held
	if seen.Owner == "" {
		op.Epoch = c.anyEpoch() - 1
	}
	if c.random.IntN(4) == 0 {
		op.To = dedupe.Done
	} else {
		op.Approval, op.Result = op.Result, ""
	}
	return op
}

// ask is a settlement by which an owner asks a person.
func (c *Client) ask(op Operation) Operation {
	op.To, op.Attempts, op.Result, op.Hold = dedupe.Held, 0, asked, min(2*pick(c.random, c.Leases), op.Retention)
	return op
}

// asks is what an Admit says of a hold.
func (o *Operation) asks() *dedupe.Hold {
	if o.Hold == 0 {
		return nil
	}
	return &dedupe.Hold{For: o.Hold, Result: []byte(asked), Standing: o.Standing}
}
