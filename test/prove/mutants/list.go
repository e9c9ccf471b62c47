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
		short(one("state.go: settle asks for no epoch", stateMachine,
			"r.Owner == s.Owner && (r.Epoch == s.Epoch || s.Epoch == 0 && s.State == NotRun)", "r.Owner == s.Owner", memoryHistories)),
		one("state.go: settle asks for no owner", stateMachine,
			"return r.Owner == s.Owner && (", "return (", memoryHistories),
		short(Mutant{Name: "state.go: settle asks for nothing", Suite: memoryHistories, Edits: []Edit{
			{stateMachine, "r.Owner == s.Owner && (r.Epoch == s.Epoch || s.Epoch == 0 && s.State == NotRun)", "true"},
			{stateMachine, "if !r.mayBecome(s, now) {", "if false {"},
		}}),
		{Name: "state.go: DONE is overwritten", Suite: memoryHistories, Edits: []Edit{
			{stateMachine, "if r.State == s.State {", "if r.State == s.State && r.State != Done {"},
			{stateMachine, "case NotRun:\n\t\treturn s.State == Done", "case NotRun, Done:\n\t\treturn s.State == Done"},
			{stateMachine, "case Absent, Done, Closed, Held:\n\t\treturn false", "case Absent, Closed, Held:\n\t\treturn false"},
		}},
		one("state.go: another result for DONE is confirmed", stateMachine,
			"if s.State == Done && !bytes.Equal(r.Result, s.Result) {", "if false && !bytes.Equal(r.Result, s.Result) {", memoryHistories),
		one("state.go: an observer's UNKNOWN keeps no words of its owner", stateMachine, "if !r.lacksWords(s) {", "if true {", memoryHistories),
		one("state.go: a late owner is refused", stateMachine, "return s.State == Done || s.State == NotRun && s.Epoch == 0 && r.unsentBefore()", "return s.State == NotRun && s.Epoch == 0 && r.unsentBefore()", memoryHistories),
		one("state.go: what nobody has heard of is given back whatever came before it", stateMachine, "s.Epoch == 0 && r.unsentBefore()", "s.Epoch == 0", memoryHistories),
		one("state.go: only the first claim is given back after its lease", stateMachine, "(r.Epoch == 1 || !r.Effect.Repeatable())", "r.Epoch == 1", memoryHistories),
		one("state.go: what is declared anew counts as unsent", stateMachine, "= req.Effect, max(r.Attempts, 1), nil", "= req.Effect, 0, nil", memoryHistories),
		one("state.go: a running call is resolved", stateMachine,
			"seen := r.Observed(now).State\n", "seen := r.Observed(r.LeaseUntil).State\n", memoryHistories),
		one("state.go: a claim does not count its epoch", stateMachine, "= r.Epoch+1, req", "= max(r.Epoch, 1), req", memoryHistories),
		one("state.go: an expired non_idempotent claim is taken over", stateMachine,
			"case !r.Effect.Repeatable() || !req.Effect.Repeatable():", "case false:", memoryHistories),
		one("state.go: only the request's effect counts", stateMachine,
			"case !r.Effect.Repeatable() || !req.Effect.Repeatable():", "case !req.Effect.Repeatable():", memoryHistories),
		one("state.go: a running lease is taken", stateMachine, "case now.Before(r.LeaseUntil) &&", "case false &&", memoryHistories),
		one("state.go: the next incarnation waits for the lease", stateMachine, " && !succeeds(req.Owner, r.Owner):", ":", memoryHistories),
		short(one("tenure.go: an earlier incarnation decides too", tenure, "number > earlier", "number != earlier", memoryHistories)),
		one("tenure.go: any instance decides", tenure, "instance == of && ", `instance+of != "" && `, memoryHistories),
		one("state.go: a claim is not its owner's own", stateMachine, "case r.Owner == req.Owner:", "case false:", memoryHistories),
		one("state.go: a late request claims what its owner gave back", stateMachine, "if r.Owner == req.Owner {", "if false {", memoryHistories),
		one("state.go: what may have run runs again as non_idempotent", stateMachine,
			"if r.Fate(req.Effect) == MayHaveRun {", "if false {", memoryHistories),
		one("state.go: other arguments are not noticed", stateMachine,
			"if r.Tool != req.Tool || r.Fingerprint != req.Fingerprint {", "if false {", memoryHistories),
		one("state.go: renew asks for no owner", stateMachine,
			"r.Owner == claim.Owner && r.Epoch == claim.Epoch:", "r.Epoch == claim.Epoch:", memoryHistories),
		one("state.go: renew asks for no epoch", stateMachine,
			"r.Owner == claim.Owner && r.Epoch == claim.Epoch:", "r.Owner == claim.Owner:", memoryHistories),
		one("state.go: UNKNOWN may be claimed", stateMachine, "return r, OutcomeUnknown, false", "return r.claim(req, now), Won, true", memoryHistories),
		one("state.go: an expired claim is told as running", stateMachine,
			"if r.State != Claimed || now.Before(r.LeaseUntil) {", "if true {", memoryHistories),

		short(one("state.go: a held call runs unasked", stateMachine, "	case holds:\n		return r, AwaitsApproval, false\n", "	case holds:\n		return r.claim(req, now), Won, true\n", memoryHistories)),
		one("state.go: a call that asks is not held", stateMachine, "		return r.hold(req, now), AwaitsApproval, true\n", "		return r.claim(req, now), Won, true\n", memoryHistories),
		one("state.go: who only asks claims", stateMachine, "	if req.HoldOnly && verdict == Won {\n", "	if false {\n", memoryHistories),
		one("state.go: an approval is lost with the claim", stateMachine, "req.Draw.Counter, r.Approval\n", "req.Draw.Counter, nil\n", memoryHistories),
		one("state.go: an approval counts for good", stateMachine, "	if r.State == Held && !holds {\n", "	if false {\n", memoryHistories),
		one("state.go: a hold that is over is approved", stateMachine, "	case r.Approved() || !r.holds(now):\n", "	case r.Approved():\n", memoryHistories),
		one("state.go: a hold that is over is denied", stateMachine, "(seen == Unknown || seen == Held)", "(seen == Unknown || r.State == Held)", decidedHolds),
		one("state.go: an approval is overwritten", stateMachine, "	case r.Approved() || !r.holds(now):\n", "	case !r.holds(now):\n", memoryHistories),
		one("state.go: a hold forgets the attempts before it", stateMachine, "= r.Epoch, r.FinishedAt, r.Attempts, req", "= r.Epoch, r.FinishedAt, 0, req", memoryHistories),
		one("state.go: a hold that is over is told as one", stateMachine, "	if r.State == Held && !r.holds(now) {\n		r.State,", "	if false {\n		r.State,", memoryHistories),
	}
}

// stores: what the stores in this process add to the state machine.
func stores() []Mutant {
	return []Mutant{
		one("layout.go: the seal is not looked at", layout, sealCompared, sealIgnored, sealedRecord),
		one("layout.go: a result is not sealed", layout, "return crc32.Update(sum, castagnoli, result)", "return sum", sealedRecord),
		one("tally.go: a ceiling lets one more call through", tallies, "t.Calls+1 > d.MaxCalls", "t.Calls > d.MaxCalls", memoryTallies),
		one("tally.go: a call that is taken over counts twice", tallies, "	if r.State.counts() {\n		back", "	if r.State.counts() && next.State != Claimed {\n		back", memoryTallies),
		one("tally.go: what did not run stays charged", tallies, "	if r.State.counts() {\n		back", "	if r.State.counts() && next.State != NotRun {\n		back", memoryTallies),
		one("tally.go: what is in doubt is given back", tallies, "s == Claimed || s == Done || s == Unknown }", "s == Claimed || s == Done }", memoryTallies),
	}
}

// leaseAhead is where a claim looks at its lease.
const leaseAhead = "ahead(confirmed.Add(surely(c.dedupe.options.Lease)), time.Now()) && "

// layers: what stands between a store and a tool.
func layers() []Mutant {
	return []Mutant{
		one("dedupe: a claim is always held", claim, leaseAhead, "", heldClaim),
		one("dedupe: a claim is always held, seen by calls", claim, leaseAhead, "", callHistories),
		short(one("fence: a process is never fenced", fence, "return f.tenures == nil || ahead(known.until, time.Now())", "return f.tenures == nil || !known.until.IsZero()", stoppedPredecessor)),
		one("fence: a process is never fenced, seen by calls", fence, "return f.tenures == nil || ahead(known.until, time.Now())", "return f.tenures == nil || !known.until.IsZero()", incarnations),
		one("fence: a tenure counts from the answer", incarnation, "	f.confirm(sent, before", "	f.confirm(time.Now(), before", tenureFromRequest),
		one("fence: what was claimed before the tenure was forgotten is held", fence, " && claimed.After(known.since)", "", forgottenTenure),
		one("incarnation.go: a tenure that is forgotten unheard", "dedupe/fence.go", "after.Renewals <= f.last.Renewals //", "before.Token == \"\" //", forgottenTenure),
		one("fence: settles whoever is the instance", fence, "err != nil && (settlement.Epoch != 0 || settlement.Resolves) {", "err != nil && false {", stoppedPredecessor),
		one("tenure.go: another's is taken at once", tenure, "|| !t.over(bid, now)", "", twoOfOneName),
		one("tenure.go: who was succeeded takes it back", tenure, "case bid.Number != 0 || bid.Resigns ||", "case bid.Resigns ||", bids),
		one("dedupe: calls share an owner", dedupeFile,
			"strconv.AppendUint(digits[:0], d.owners.Add(1), 36)", "strconv.AppendUint(digits[:0], 1, 36)", callHistories),
		one("dedupe: an unknown outcome counts as not run", claim,
			"if s.State == Unknown && c.origin.Record.Effect.Repeatable() {", "if s.State == Unknown {", callHistories),
		one("dedupe: an expired claim is taken over, seen by calls", stateMachine,
			"case !r.Effect.Repeatable() || !req.Effect.Repeatable():", "case false:", callHistories),
		one("dedupe: a forgotten claim is not written back", stateMachine, "	case r.State == Absent:\n		next, verdict = *claim,", "	case false:\n		next, verdict = *claim,", forgottenClaim),
		one("dedupe: a running call is renewed no longer than its record is kept", claim,
			"	if !ok {\n\t\tend = sent", "	if !ok || end.Sub(sent) > d.options.Retention {\n\t\tend = sent", longCall),
		one("dedupe: a duplicate does not ask again", ticket,
			"pollFirst = 50 * time.Millisecond", "pollFirst = time.Hour", waiting),
		// Two places keep it from being repeated; each alone is enough.
		{Name: "call: an ambiguous failure is repeated", Suite: unknownOutcome, Edits: []Edit{
			{callTries, "failure.Evidence == tool.Ambiguous && effect.Repeatable()", "failure.Evidence == tool.Ambiguous"},
			{callRun, "func (r repeatable) still() bool {\n", "func (r repeatable) still() bool {\n\tif true {\n\t\treturn true\n\t}\n"},
		}},
		one("call: a lost claim is not noticed", callAttempt,
			"if withheld := r.invocation.Withheld(); withheld != nil {", "if withheld := r.invocation.Withheld(); withheld != nil && false {", lostClaim),
		one("call: runs without a claim when the store is down", callClaim,
			"case c.effect() == tool.ReadOnly && !errors.Is", "case (true || c.effect() == tool.ReadOnly) && !errors.Is", storeDown),
		one("call: an effect ends with its caller", callRun,
			"runner.attempt(atWork, n)", "runner.attempt(ctx, n)", leaving),
		one("call: the settlement ends with its caller", callSettle,
			"	ctx = context.WithoutCancel(ctx)\n\tverdict", "	verdict", settlement),
	}
}

// transports: what sends a request.
func transports() []Mutant {
	return []Mutant{
		one("httptool: a body can be sent again", httpRequest, "req.ContentLength = int64(len(r.body))",
			"req.ContentLength = int64(len(r.body))\n\treq.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(r.body)), nil }",
			reusedConnections),
		one("httptool: redirects are followed", httpRedirect,
			"harmless := effect == tool.ReadOnly && len(req.body) == 0 &&", "harmless := effect == tool.ReadOnly || method != \"\" ||", redirects),
	}
}
