package mutants

import "regexp"

// had are the cases of the conformance suite about effects.
var (
	had             = regexp.MustCompile(`(?m)^\s+--- FAIL: Test(Conformance(InMemory)?|OneServer)/an_effect`)
	memoryEffects   = Suite{"./internal/store/embedded", "^TestConformanceInMemory$/^an_effect", had}
	embeddedEffects = Suite{"./internal/store/embedded", "^TestConformance$/^an_effect", had}
	redisEffects    = Suite{"./internal/store/redisstore", "^TestOneServer$/^an_effect", had}
	effectWaits     = Suite{"./dedupe", "^TestWaitingForAnEffect$", regexp.MustCompile(`(?m)^\s+--- FAIL: TestWaitingForAnEffect/`)}
	forgottenEffect = test("./dedupe", "TestAnEffectThatTheStoreForgets")
	failedEffect    = Suite{"./internal/call", "^TestWhatAFailureSaysOfAnEffect$", regexp.MustCompile(`(?m)^\s+--- FAIL: TestWhatAFailureSaysOfAnEffect/`)}
	rounds          = test("./dedupe", "TestARoundThatDidNotRunFreesNothingOfTheFirst")
	callRounds      = test("./internal/call", "TestTheRoundsOfARequestHaveOneEffect")
	newID           = test("./internal/call", "TestAnEffectIsNotHadAgainUnderANewID")
)

// effects: an effect is had once, whatever the ids.
func effects() []Mutant {
	return []Mutant{
		short(without("effect.go: what is done counts for nothing", "dedupe.Record.hinders", "DuplicateEffect", memoryEffects)),
		instead("effect.go: what nobody knows counts for nothing", "dedupe.Record.hinders", "Unknown:\n\tcase", "Unknown:\n\t\treturn 0\n\tcase", memoryEffects),
		never("effect.go: a keyed call that may have run counts for nothing", "dedupe.Record.hinders", "MayHaveRun", memoryEffects),
		never("effect.go: a call that was never sent counts", "dedupe.Record.hinders", "MayHaveRun", memoryEffects),
		instead("effect.go: a running call counts for nothing", "dedupe.Record.hinders", "EffectInFlight", "0", memoryEffects),
		instead("effect.go: a claim whose lease is out counts for nothing", "dedupe.Record.hinders", "if harmless", "if true", memoryEffects),
		never("effect.go: an incarnation that is gone is waited for", "dedupe.Record.hinders", "LeaseUntil", memoryEffects),
		never("effect.go: the window has no end", "dedupe.Record.hinders", "EffectKey", memoryEffects),
		instead("effect.go: holders are forgotten before the window is over", "dedupe.EffectKey.Keep", "retention + k.Window", "retention", memoryEffects),
		instead("effect.go: who is allowed holds it alone", "dedupe.Contend", "DuplicateEffect {\n\t\tholds = append(holds, worst.Key)\n\t}", "DuplicateEffect {\n\t}", memoryEffects),
		never("effect.go: any number is allowed", "dedupe.Contend", "EffectKey", memoryEffects),
		never("effect.go: its own claim, asked for again, is refused", "dedupe.Request.contends", "Claimed", memoryEffects),
		never("rows.go: a tenant's effect is its conversation's", "dedupe.effectKey", "WholeTenant", memoryEffects),
		never("step.go: nobody holds an effect", "dedupe.admitting.apply", "holds", memoryEffects),
		never("step.go: an effect is not compared", "dedupe.admitting.decide", "contends", memoryEffects),
		instead("step.go: an effect is refused and charged", "dedupe.admitting.decide", "refusal\n\t\t\treturn", "refusal\n\t\t\ta.move(&old.Record, &next)\n\t\t\tfor _, c := range a.tallies {\n\t\t\t\ta.rows.SetValue(tallyKey(a.Call, c.counter), c.encode(), a.keep)\n\t\t\t}\n\t\t\treturn", memoryEffects),
		instead("step.go: holders are forgotten before the window is over", "dedupe.admitting.apply", "req.EffectKey.Keep(a.keep)", "keep", memoryEffects),
		instead("step.go: a call that is free of its effect holds it", "dedupe.step.free", "bool { return k == s.Call }", "bool { return k == s.Call && false }", memoryEffects),
		instead("step.go: who holds no effect writes who does", "dedupe.step.free", "slices.Contains(keys, s.Call)", "len(keys) == len(slices.Clone(keys))", stepWrites),
		instead("step.go: a call that is restored holds nothing", "dedupe.step.hold", "Taken(read(s.rows, name, decodeHolders), s.Call)", "read(s.rows, name, decodeHolders)", memoryEffects),
		never("step.go: a call that is held holds its effect", "dedupe.settling.apply", "Held", memoryEffects),
		never("effect.go: what a call goes on with holds nothing any more", "dedupe.Contend", "v != DuplicateEffect", rounds),
		instead("settlement.go: a late settlement keeps its effect", "dedupe.Settlement.alone", "Appends = 0, nil", "Appends, s.Frees = 0, nil, EffectKey{}", test("./dedupe", "TestALateSettlementFreesItsEffect")),
		never("call: a round is known by its id", "internal/call.recorded.goesOn", "Further", callRounds),
		instead("call: a call goes on with one that has asked for nothing", "internal/call.recorded.goesOn", `res.GetInputRequiredJson() != ""`, "res != nil", callRounds),
		instead("embedded: nobody holds an effect", "internal/store/embedded.txn.SetValue", "(body)", "(body[:0])", embeddedEffects),
		instead("embedded: of an earlier call there is no result", "dedupe.DecodeSealed", "Result: result", "Result: nil", embeddedEffects),
		instead("redisstore: who is free of an effect frees all of it", "internal/store/redisstore.rows.set", "r.write", "if keep == 0 {\n\t\tbody = \"\"\n\t}\n\tr.write", redisEffects),
		never("ticket.go: an effect under way is not waited for", "dedupe.Verdict.Waits", "EffectInFlight", effectWaits),
		instead("claim.go: a forgotten claim does not hold its effect again", "dedupe.newClaim", "*record, req.EffectKey, req", "Record: *record, Terms: req", forgottenEffect),
		short(never("call: a definite error keeps its effect", "internal/call.ending.frees", "dedupe", failedEffect)),
		never("call: an attempt before a definite error counts for nothing", "internal/call.ending.frees", "EarlierMayHaveRun", failedEffect),
		always("call: a tool's own word is a proof", "internal/call.failing.provesNothingDone", "NonIdempotent", failedEffect),
		never("call: an error is told as done", "internal/call.recorded.duplicate", `code != ""`, failedEffect),
		instead("call: the order of arguments makes another effect", "internal/call.checked.identify", "Name, canonical", "Name, append(canonical[:0:0], c.Arguments...)", newID),
	}
}
