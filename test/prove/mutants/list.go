package mutants

// All returns every mutant.
func All() []Mutant {
	var all []Mutant
	for _, group := range [][]Mutant{machine(), steps(), redis(), stores(), embedded(), finds(), layers(), transports(), effects(), workers(), owners(), conversations(), reloads(), records(), outboxes(), references()} {
		all = append(all, group...)
	}
	return all
}

// machine: the state machine, which every store runs.
func machine() []Mutant {
	return []Mutant{
		short(always("state.go: settle asks for no epoch", "dedupe.Settlement.owns", "Epoch == s", memoryHistories)),
		always("state.go: settle asks for no owner", "dedupe.Settlement.owns", "Owner", memoryHistories),
		{Name: "state.go: settle asks for nothing", Suite: memoryHistories, Edits: []Edit{
			{In: stateMachine, Old: "r.Owner == s.Owner && (r.Epoch == s.Epoch || s.Epoch == 0 && s.State == NotRun)", New: "true"},
			{In: stateMachine, Old: "if !r.mayBecome(s, now) {", New: "if false {"},
		}},
		{Name: "state.go: DONE is overwritten", Suite: memoryHistories, Edits: []Edit{
			{In: stateMachine, Old: "if r.State == s.State {", New: "if r.State == s.State && r.State != Done {"},
			{In: stateMachine, Old: "case NotRun:\n\t\treturn s.State == Done", New: "case NotRun, Done:\n\t\treturn s.State == Done"},
			{In: stateMachine, Old: "case Absent, Done, Closed, Held:\n\t\treturn false", New: "case Absent, Closed, Held:\n\t\treturn false"},
		}},
		never("state.go: another result for DONE is confirmed", "dedupe.Record.settle", "Done", memoryHistories),
		always("state.go: an observer's UNKNOWN keeps no words of its owner", "dedupe.Record.settle", "lacksWords", memoryHistories),
		instead("state.go: a late owner is refused", "dedupe.Record.mayBecome", "Done || s.State == NotRun && s", "NotRun && s", memoryHistories),
		always("state.go: what nobody has heard of is given back whatever came before it", "dedupe.Record.mayBecome", "unsentBefore", memoryHistories),
		instead("state.go: only the first claim is given back after its lease", "dedupe.Record.unsentBefore", "(r.Epoch == 1 || !r.Effect.Repeatable())", "r.Epoch == 1", memoryHistories),
		instead("state.go: what is declared anew counts as unsent", "dedupe.Record.again", "max(r.Attempts, 1)", "0", memoryHistories),
		instead("state.go: a running call is resolved", "dedupe.Record.mayBecome", "(now)", "(r.LeaseUntil)", memoryHistories),
		instead("state.go: a claim does not count its epoch", "dedupe.Record.claim", "r.Epoch+1", "max(r.Epoch, 1)", memoryHistories),
		never("state.go: an expired non_idempotent claim is taken over", "dedupe.Record.contest", "Repeatable() || !req", memoryHistories),
		never("state.go: only the request's effect counts", "dedupe.Record.contest", "r.Effect", memoryHistories),
		never("state.go: a running lease is taken", "dedupe.Record.contest", "LeaseUntil) && !succeeds(req", memoryHistories),
		always("state.go: the next incarnation waits for the lease", "dedupe.Record.contest", "succeeds", memoryHistories),
		instead("tenure.go: an earlier incarnation decides too", "dedupe.succeeds", "> earlier", "!= earlier", memoryHistories),
		instead("tenure.go: any instance decides", "dedupe.succeeds", "instance == of", `instance+of != ""`, memoryHistories),
		never("state.go: a claim is not its owner's own", "dedupe.Record.contest", "Owner == req", memoryHistories),
		never("state.go: a late request claims what its owner gave back", "dedupe.Record.again", "Owner", memoryHistories),
		never("state.go: what may have run runs again as non_idempotent", "dedupe.Record.again", "MayHaveRun", memoryHistories),
		never("state.go: other arguments are not noticed", "dedupe.Record.admit", "Tool || r", memoryHistories),
		always("state.go: renew asks for no owner", "dedupe.Record.Renew", "Owner", memoryHistories),
		always("state.go: renew asks for no epoch", "dedupe.Record.Renew", "Epoch", memoryHistories),
		instead("state.go: UNKNOWN may be claimed", "dedupe.Record.admit", "r, OutcomeUnknown, false", "r.claim(req, now), Won, true", memoryHistories),
		always("state.go: an expired claim is told as running", "dedupe.Record.Observed", "Claimed", memoryHistories),

		instead("state.go: a held call runs unasked", "dedupe.Record.begin", "r, AwaitsApproval, false", "r.claim(req, now), Won, true", memoryHistories),
		instead("state.go: a call that asks is not held", "dedupe.Record.begin", "hold(req, now), AwaitsApproval", "claim(req, now), Won", memoryHistories),
		never("state.go: who only asks claims", "dedupe.Record.Admit", "HoldOnly", memoryHistories),
		instead("state.go: an approval is lost with the claim", "dedupe.Record.claim", "r.Approval", "nil", memoryHistories),
		never("state.go: an approval counts for good", "dedupe.Record.begin", "State", memoryHistories),
		never("state.go: a hold that is over is approved", "dedupe.Record.approve", "holds", memoryHistories),
		instead("state.go: a hold that is over is denied", "dedupe.Record.mayBecome", "seen == Held", "r.State == Held", decidedHolds),
		instead("state.go: an approval is overwritten", "dedupe.Record.approve", "r.Approved() || !r", "!r", memoryHistories),
		instead("state.go: a hold forgets the attempts before it", "dedupe.Record.hold", "r.Attempts, req", "0, req", memoryHistories),
		never("state.go: a hold that is over is told as one", "dedupe.Record.Observed", "holds", memoryHistories),
	}
}

// stores: what the stores in this process add to the state machine.
func stores() []Mutant {
	return []Mutant{
		instead("layout.go: the seal is not looked at", "dedupe.DecodeSealed", "binary.BigEndian.Uint32(sum) != seal(body, result)", "sum == nil && seal(body, result) > 0", sealedRecord),
		instead("layout.go: a result is not sealed", "dedupe.seal", "crc32.Update(sum, castagnoli, result)", "sum", sealedRecord),
		never("tally.go: a ceiling lets one more call through", "dedupe.Draw.Bill", "Calls", memoryTallies),
		instead("tally.go: a call that is taken over counts twice", "dedupe.Record.Moves", "r.State.counts() {", "r.State.counts() && next.State != Claimed {", memoryTallies),
		instead("tally.go: what did not run stays charged", "dedupe.Record.Moves", "r.State.counts() {", "r.State.counts() && next.State != NotRun {", memoryTallies),
		never("tally.go: what is in doubt is given back", "dedupe.State.counts", "Done", memoryTallies),
	}
}

// layers: what stands between a store and a tool.
func layers() []Mutant {
	return []Mutant{
		always("dedupe: a claim is always held", "dedupe.Claim.Held", "options", heldClaim),
		always("dedupe: a claim is always held, seen by calls", "dedupe.Claim.Held", "options", callHistories),
		short(instead("fence: a process is never fenced", "dedupe.fence.holds", "ahead(known.until, time.Now())", "!known.until.IsZero()", stoppedPredecessor)),
		instead("fence: a process is never fenced, seen by calls", "dedupe.fence.holds", "ahead(known.until, time.Now())", "!known.until.IsZero()", incarnations),
		instead("fence: a tenure counts from the answer", "dedupe.fence.round", "sent, before", "time.Now(), before", tenureFromRequest),
		always("fence: what was claimed before the tenure was forgotten is held", "dedupe.fence.covers", "claimed", forgottenTenure),
		instead("incarnation.go: a tenure that is forgotten unheard", "dedupe.fence.confirm", "after.Renewals <= f.last.Renewals", `before.Token == ""`, forgottenTenure),
		never("fence: settles whoever is the instance", "dedupe.fence.Settle", "0 || settlement", stoppedPredecessor),
		never("tenure.go: another's is taken at once", "dedupe.Tenure.Bid", "over", twoOfOneName),
		never("tenure.go: who was succeeded takes it back", "dedupe.Tenure.Bid", "Number", bids),
		instead("dedupe: calls share an owner", "dedupe.Dedupe.newOwner", "d.owners.Add(1)", "1", callHistories),
		always("dedupe: an unknown outcome counts as not run", "dedupe.Claim.Settle", "Repeatable", callHistories),
		never("dedupe: an expired claim is taken over, seen by calls", "dedupe.Record.contest", "Repeatable() || !req", callHistories),
		never("dedupe: a forgotten claim is not written back", "dedupe.Record.Renew", "Absent", forgottenClaim),
		instead("dedupe: a running call is renewed no longer than its record is kept", "dedupe.newClaim", "Deadline()\n\tif !ok {", "Deadline()\n\tif !ok || end.Sub(sent) > d.options.Retention {", longCall),
		one("dedupe: a duplicate does not ask again", ticket,
			"pollFirst = 50 * time.Millisecond", "pollFirst = time.Hour", waiting),
		// Two places keep it from being repeated; each alone is enough.
		{Name: "call: an ambiguous failure is repeated", Suite: unknownOutcome, Edits: []Edit{
			{In: callTries, Old: "failure.Evidence == tool.Ambiguous && effect.Repeatable()", New: "failure.Evidence == tool.Ambiguous"},
			{In: callRun, Old: "func (r repeatable) still() bool {\n", New: "func (r repeatable) still() bool {\n\tif true {\n\t\treturn true\n\t}\n"},
		}},
		never("call: a lost claim is not noticed", "internal/call.runner.attempt", "withheld", lostClaim),
		always("call: runs without a claim when the store is down", "internal/call.Executor.withoutStore", "ReadOnly", storeDown),
		instead("call: an effect ends with its caller", "internal/call.Executor.run", "atWork, n", "ctx, n", leaving),
		without("call: the settlement ends with its caller", "internal/call.Executor.settle", "WithoutCancel", settlement),
	}
}

// transports: what sends a request.
func transports() []Mutant {
	return []Mutant{
		instead("httptool: a body can be sent again", "internal/backend/httptool.request.build", "(len(r.body))", "(len(r.body))\n\treq.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(r.body)), nil }", reusedConnections),
		instead("httptool: redirects are followed", "internal/backend/httptool.follow", "&& len(req.body) == 0 &&\n\t\t(method == http.MethodGet || method == http.MethodHead)", "|| method != \"\" ||\n\t\t(method == http.MethodGet || method == http.MethodHead)", redirects),
	}
}
