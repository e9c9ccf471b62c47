package mutants

import "regexp"

// The files of effect identity.
const (
	effectKeys    = "dedupe/effect.go"
	callEffect    = "internal/call/effect.go"
	callEarlier   = "internal/call/earlier.go"
	callArguments = "internal/call/arguments.go"
)

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
		short(one("effect.go: what is done counts for nothing", effectKeys, "		verdict = DuplicateEffect", "		return 0", memoryEffects)),
		one("effect.go: what nobody knows counts for nothing", effectKeys, "	case Unknown:\n", "	case Unknown:\n		return 0\n", memoryEffects),
		one("effect.go: a keyed call that may have run counts for nothing", effectKeys, "if !r.MayHaveRun() || h", "if true || h", memoryEffects),
		one("effect.go: a call that was never sent counts", effectKeys, "!r.MayHaveRun() || h", "!r.Effect.Repeatable() || h", memoryEffects),
		one("effect.go: a running call counts for nothing", effectKeys, "return EffectInFlight", "return 0", memoryEffects),
		one("effect.go: a claim whose lease is out counts for nothing", effectKeys, "		if harmless {", "		if true {", memoryEffects),
		one("effect.go: an incarnation that is gone is waited for", effectKeys, " && !succeeds(req.Owner, r.Owner) {\n			return EffectInFlight", " {\n			return EffectInFlight", memoryEffects),
		one("effect.go: the window has no end", effectKeys, "if !now.Before(end.Add(req.EffectKey.Window)) {", "if end.IsZero() {", memoryEffects),
		one("effect.go: holders are forgotten before the window is over", effectKeys, "return retention + k.Window", "return retention", memoryEffects),
		one("effect.go: who is allowed holds it alone", effectKeys, "		holds = append(holds, worst.Key)\n", "", memoryEffects),
		one("effect.go: any number is allowed", effectKeys, "|| len(holds) > MaxHolders", "", memoryEffects),
		one("effect.go: its own claim, asked for again, is refused", effectKeys, " && !(r.State == Claimed && r.Owner == req.Owner)", "", memoryEffects),
		one("rows.go: a tenant's effect is its conversation's", sheetNames, "if e.WholeTenant {", "if false {", memoryEffects),
		short(one("step.go: nobody holds an effect", stepFile, "if holds != nil {", "if false && holds != nil {", memoryEffects)),
		one("step.go: an effect is not compared", stepFile, "if req.contends(old.Record, verdict) {", "if false {", memoryEffects),
		one("step.go: an effect is refused and charged", stepFile, "			a.admission = *refusal\n",
			"			a.admission = *refusal\n			a.move(&old.Record, &next)\n			for _, c := range a.tallies {\n				a.rows.SetValue(tallyKey(a.Call, c.counter), c.encode(), a.keep)\n			}\n", memoryEffects),
		one("step.go: holders are forgotten before the window is over", stepFile,
			"encodeHolders(holds), a.req.EffectKey.Keep(a.keep))", "encodeHolders(holds), a.keep)", memoryEffects),
		one("step.go: a call that is free of its effect holds it", stepFile, "{ return k == s.Call })", "{ return k == s.Call && false })", memoryEffects),
		one("step.go: who holds no effect writes who does", stepFile, "; slices.Contains(keys, s.Call) {", "; len(keys) == len(slices.Clone(keys)) {", stepWrites),
		one("step.go: a call that is restored holds nothing", stepFile, "Taken(read(s.rows, name, decodeHolders), s.Call)", "read(s.rows, name, decodeHolders)", memoryEffects),
		one("step.go: a call that is held holds its effect", stepFile, "	if s.next.State == Held && !s.next.MayHaveRun() && end.Claim != nil {", "	if false {", memoryEffects),
		one("effect.go: what a call goes on with holds nothing any more", effectKeys, "if after || v != DuplicateEffect {", "if v != DuplicateEffect {", rounds),
		one("settlement.go: a late settlement keeps its effect", "dedupe/settlement.go", "	s.Tokens, s.Appends = 0, nil\n", "	s.Tokens, s.Appends, s.Frees = 0, nil, EffectKey{}\n", test("./dedupe", "TestALateSettlementFreesItsEffect")),
		one("call: a round is known by its id", callEarlier, "!r.Round.Further()", "false", callRounds),
		one("call: a call goes on with one that has asked for nothing", callEarlier, `err == nil && res.GetInputRequiredJson() != ""`, "err == nil && res != nil", callRounds),
		one("embedded: nobody holds an effect", embeddedRows, "expires, []byte(body))", "expires, []byte(body[:0]))", embeddedEffects),
		one("embedded: of an earlier call there is no result", layout, "Result: result,", "Result: nil,", embeddedEffects),
		one("redisstore: who is free of an effect frees all of it", redisRows, "	r.write('S', at, keep.Milliseconds(), r.kept(body))\n", "	if keep == 0 {\n		body = \"\"\n	}\n	r.write('S', at, keep.Milliseconds(), r.kept(body))\n", redisEffects),
		one("ticket.go: an effect under way is not waited for", "dedupe/request.go", "return v == InFlight || v == EffectInFlight", "return v == InFlight", effectWaits),
		one("claim.go: a forgotten claim does not hold its effect again", claim, "Origin{*record, req.EffectKey, req.Terms}", "Origin{Record: *record, Terms: req.Terms}", forgottenEffect),
		short(one("call: a definite error keeps its effect", callEffect, "if end.state == dedupe.Done || c.effect() == tool.Keyed", "if false && end.state == dedupe.Done || c.effect() == tool.Keyed", failedEffect)),
		one("call: an attempt before a definite error counts for nothing", callEffect, "if !end.harmless || c.now.EarlierMayHaveRun {", "if !end.harmless {", failedEffect),
		one("call: a tool's own word is a proof", callEffect, "return effect == tool.NonIdempotent || f.route.Tool.Policy.FailsCleanly || failure.Status >= http.StatusBadRequest", "return true", failedEffect),
		one("call: an error is told as done", callEarlier, `code != "" && code != tool.CodeInvalidOutput`, `false && code != "" && code != tool.CodeInvalidOutput`, failedEffect),
		one("call: the order of arguments makes another effect", callArguments, "Print:  schema.Fingerprint(c.route.Tool.Name, canonical)", "Print:  schema.Fingerprint(c.route.Tool.Name, append(canonical[:0:0], c.Arguments...))", newID),
	}
}
