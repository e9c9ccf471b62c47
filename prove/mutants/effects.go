package mutants

import "regexp"

// The files of effect identity.
const (
	effectKeys   = "dedupe/effect.go"
	effectLua    = "dedupe/redisstore/effect.lua"
	contendLua   = "dedupe/redisstore/contend.lua"
	restoreLua   = "dedupe/redisstore/restore.lua"
	memoryEffect = "dedupe/memory/effect.go"
	fileEffect   = "dedupe/embedded/effect.go"
	callEffect   = "call/effect.go"
)

// had are the cases of the conformance suite about effects.
var (
	had             = regexp.MustCompile(`(?m)^\s+--- FAIL: Test(Conformance|OneServer)/an_effect`)
	memoryEffects   = Suite{"./dedupe/memory", "^TestConformance$/^an_effect", had}
	embeddedEffects = Suite{"./dedupe/embedded", "^TestConformance$/^an_effect", had}
	redisEffects    = Suite{"./dedupe/redisstore", "^TestOneServer$/^an_effect", had}
	effectWaits     = Suite{"./dedupe", "^TestWaitingForAnEffect$", regexp.MustCompile(`(?m)^\s+--- FAIL: TestWaitingForAnEffect/`)}
	forgottenEffect = test("./dedupe", "TestAnEffectThatTheStoreForgets")
	failedEffect    = Suite{"./call", "^TestWhatAFailureSaysOfAnEffect$", regexp.MustCompile(`(?m)^\s+--- FAIL: TestWhatAFailureSaysOfAnEffect/`)}
	newID           = test("./call", "TestAnEffectIsNotHadAgainUnderANewID")
)

// effects: an effect is had once, whatever the ids.
func effects() []Mutant {
	return []Mutant{
		short(one("effect.go: what is done counts for nothing", effectKeys, "		if within(r.FinishedAt) {\n			return DuplicateEffect", "		if false && within(r.FinishedAt) {\n			return DuplicateEffect", memoryEffects)),
		one("effect.go: what nobody knows counts for nothing", effectKeys, "	case Unknown:\n		if within(r.FinishedAt) {", "	case Unknown:\n		if false && within(r.FinishedAt) {", memoryEffects),
		one("effect.go: a keyed call that may have run counts for nothing", effectKeys, "if r.MayHaveRun() && !r", "if false && !r", memoryEffects),
		one("effect.go: a call that was never sent counts", effectKeys, "r.MayHaveRun() && !r", "r.Effect.Repeatable() && !r", memoryEffects),
		one("effect.go: a running call counts for nothing", effectKeys, "return EffectInFlight", "return 0", memoryEffects),
		one("effect.go: a claim whose lease is out counts for nothing", effectKeys, "if !r.harmless(req) && within(r.LeaseUntil) {", "if false && within(r.LeaseUntil) {", memoryEffects),
		one("effect.go: an incarnation that is gone is waited for", effectKeys, " && !succeeds(req.Owner, r.Owner) {\n			return EffectInFlight", " {\n			return EffectInFlight", memoryEffects),
		one("effect.go: the window has no end", effectKeys, "return now.Before(end.Add(req.EffectKey.Window))", "_ = end\n\t\treturn true", memoryEffects),
		one("effect.go: holders are forgotten before the window is over", effectKeys, "return retention + k.Window", "return retention", memoryEffects),
		one("effect.go: who is allowed holds it alone", effectKeys, "		holds = append(holds, done.Key)\n", "", memoryEffects),
		one("effect.go: any number is allowed", effectKeys, "|| len(holds) > MaxHolders", "", memoryEffects),
		one("effect.go: its own claim, asked for again, is refused", effectKeys, " && !(r.State == Claimed && r.Owner == req.Owner)", "", memoryEffects),
		one("memory: a tenant's effect is its conversation's", memoryEffect, "if e.WholeTenant {", "if false {", memoryEffects),
		one("memory: a call that is free of its effect holds it", memoryEffect, "h.keys = dedupe.Freed(h.keys, key)", "_ = key", memoryEffects),
		short(one("embedded: nobody holds an effect", fileEffect, "	return t.turn(name, body, keep)", "	return t.turn(name, body[:0], keep)", embeddedEffects)),
		one("embedded: of an earlier call there is no result", fileEffect, "			err = t.loadResult(&e)", "			e.Mark = false", embeddedEffects),
		one("embedded: a call that is restored holds nothing", fileEffect, "if back.EffectKey == (dedupe.EffectKey{}) {", "if true {", embeddedEffects),
		short(one("contend.lua: what is done counts for nothing", contendLua, "within and DUPLICATE_EFFECT, finished", "false and DUPLICATE_EFFECT, finished", redisEffects)),
		one("contend.lua: what nobody knows counts for nothing", contendLua, "return nil, within and EFFECT_UNKNOWN", "return nil, false", redisEffects),
		one("contend.lua: a keyed call that may have run counts for nothing", contendLua, "was ~= NON_IDEMPOTENT and (attempts", "false and (attempts", redisEffects),
		one("contend.lua: a call that was never sent counts", contendLua, "(attempts > 0 or e > 1) and not harmless", "not harmless", redisEffects),
		one("contend.lua: a running call counts for nothing", contendLua, "return nil, EFFECT_IN_FLIGHT", "return nil, false", redisEffects),
		one("contend.lua: a claim whose lease is out counts for nothing", contendLua, "not harmless and now < lease + window and EFFECT_UNKNOWN", "false", redisEffects),
		one("contend.lua: an incarnation that is gone is waited for", contendLua, " and not succeeds(owner, holder)", "", redisEffects),
		one("contend.lua: the window has no end", contendLua, "local within = now < finished + window", "local within = true", redisEffects),
		one("contend.lua: who is allowed holds it alone", contendLua, "  holds[#holds + 1] = done\n", "", redisEffects),
		one("contend.lua: any number is allowed", contendLua, " or #holds > MAX_HOLDERS", "", redisEffects),
		one("admit.lua: holders are forgotten before the window is over", admitLua, "hold(contended, holds, retention + tonumber(ARGV[13]))", "hold(contended, holds, retention)", redisEffects),
		one("admit.lua: an effect is refused and charged", admitLua, "      refusal[4] = refusal[1] and drawn and shown() or nil\n", "      charge(ARGV[7], 1)\n      move(retention)\n      refusal[4] = refusal[1] and drawn and shown() or nil\n", redisEffects),
		one("effect.lua: a call that is free of its effect holds it", effectLua, "if left > 0 then", "if false then", redisEffects),
		one("restore.lua: a call that is restored holds nothing", restoreLua, "if KEYS[2] then", "if false then", redisEffects),
		one("ticket.go: an effect under way is not waited for", "dedupe/request.go", "return v == InFlight || v == EffectInFlight", "return v == InFlight", effectWaits),
		one("claim.go: a forgotten claim does not hold its effect again", claim, "EffectKey: c.effect,\n		})", "})", forgottenEffect),
		short(one("call: a definite error keeps its effect", callEffect, "if end.state == dedupe.Done || c.effect() == tool.Keyed", "if false && end.state == dedupe.Done || c.effect() == tool.Keyed", failedEffect)),
		one("call: an attempt before a definite error counts for nothing", callEffect, "if !end.harmless || c.earlierMayHaveRun() {", "if !end.harmless {", failedEffect),
		one("call: a tool's own word is a proof", callEffect, "return c.effect() == tool.NonIdempotent || c.route.Tool.Policy.FailsCleanly || failure.Status >= http.StatusBadRequest", "return true", failedEffect),
		one("call: an error is told as done", callEffect, `code != "" && code != tool.CodeInvalidOutput`, `false && code != "" && code != tool.CodeInvalidOutput`, failedEffect),
		one("call: the order of arguments makes another effect", callEffect, "schema.Fingerprint(c.route.Tool.Name, canonical)", "schema.Fingerprint(c.route.Tool.Name, append(canonical[:0:0], c.Arguments...))", newID),
	}
}
