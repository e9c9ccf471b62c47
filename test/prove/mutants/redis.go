package mutants

// The files of the engine on Redis.
const (
	stepLua      = "internal/store/redisstore/step.lua"
	redisCommand = "internal/store/redisstore/command.go"
)

var (
	doneIfTrue    = test("./internal/store/redisstore", "TestAStepIsDoneOnlyIfAllThatItHasReadIsTrue")
	stepDoes      = test("./internal/store/redisstore", "TestWhatAStepDoes")
	logIsCut      = test("./internal/store/redisstore", "TestALogIsCutNowAndThen")
	longEnough    = test("./internal/store/redisstore", "TestALeaseCountsFromWhenItsStepIsDone")
	afterAnError  = test("./internal/store/redisstore", "TestNothingIsBelievedAfterAnError")
	notBelieved   = test("./internal/store/redisstore", "TestWhatIsBelievedIsNotTold")
	laterTime     = test("./internal/store/redisstore", "TestWhatIsDecidedByALaterTimeIsSent")
	oneInstant    = test("./internal/store/redisstore", "TestWhatIsToldIsOfOneInstant")
	notForEver    = test("./internal/store/redisstore", "TestAStepIsNotDecidedForEver")
	saidAgain     = test("./internal/store/redisstore", "TestASettlementSaidAgainIsWrittenAgain")
	timeTold      = test("./internal/store/redisstore", "TestAStepCountsFromTheTimeThatItWasTold")
	someRows      = test("./internal/store/redisstore", "TestALaneRemembersSoManyRows")
	waitOnCluster = test("./internal/store/redisstore", "TestWaitOnACluster")

	redisSteps   = Suite{"./internal/store/redisstore", "^TestOneServer$/^(a_claim_is|one_winner|what_changes)", conformance}
	redisOutputs = Suite{"./internal/store/redisstore", "^TestOneServer$/^outputs_are_kept", conformance}
	redisWaits   = Suite{"./internal/store/redisstore", "^TestOneServer$/^a_call_that_others", conformance}
	redisAppends = Suite{"./internal/store/redisstore", "^TestOneServer$/^a_conversation_is", conformance}
	redisReads   = Suite{"./internal/store/redisstore", "^TestOneServer$/^conversations_are_kept", conformance}
)

// redis: a step is decided by what is believed, done if it is true, and told when it is
// known.
func redis() []Mutant {
	return []Mutant{
		short(one("step.lua: rows are not compared", stepLua, "if text ~= args[1 + i] then", "if false then", doneIfTrue)),
		one("step.lua: rows are not compared, seen by histories", stepLua, "if text ~= args[1 + i] then", "if false then", redisHistories),
		one("step.lua: only the first row is compared", stepLua, "for i = 1, count do\n  local text", "for i = 1, math.min(1, count) do\n  local text", doneIfTrue),
		one("step.lua: what is there and empty is not there", stepLua, "text and (text == '' and '\\1' or text) or ''", "text or ''", doneIfTrue),
		one("step.lua: a step is done however early", stepLua, "local answer = now < from and {now}", "local answer = nil", doneIfTrue),
		one("step.lua: something is written before anything is compared", stepLua, "local answer = now < from and {now}",
			"local answer = now < from and {now}\nif #keys > count then redis.call('SET', keys[#keys], args[#args]) end\n", doneIfTrue),
		one("step.lua: a list may have any length", stepLua, "if redis.call('LLEN', key) ~= tonumber(amount) then", "if false then", stepDoes),
		one("step.lua: a text that is changed is kept for ever", stepLua, "text, 'KEEPTTL')", "text)", stepDoes),
		one("step.lua: nothing is deleted", stepLua, "    redis.call('DEL', key)\n", "", stepDoes),
		one("step.lua: a list is kept for ever", stepLua, "what == 'e' then\n    redis.call('PEXPIRE', key, amount)\n", "what == 'e' then\n", stepDoes),
		one("step.lua: a log only grows", stepLua, "elseif size > 2 * #text * string.byte(text) then", "elseif false then", logIsCut),
		one("step.lua: a log is cut by one entry too many", stepLua, "#starts + 1 - string.byte", "#starts + 2 - string.byte", logIsCut),
		one("step.lua: as many messages are told as there are", stepLua, "if left >= 0 or #told == before then", "if true then", redisReads),
		one("step.lua: a message that is larger than asked for is not told", stepLua, "if left >= 0 or #told == before then", "if left >= 0 then", redisReads),
		one("step.lua: nobody is told of a settlement", stepLua, "    redis.pcall('PUBLISH', text, key)\n", "", redisWaits),

		instead("redisstore: who panics keeps the lane", "internal/store/redisstore.pipeline.sendAlone", "l.next(again)", "again", test("./internal/store/redisstore", "TestAStepThatPanics")),
		short(never("redisstore: what has changed something is decided again", "internal/store/redisstore.command.hear", "changes", redisSteps)),
		short(always("redisstore: whatever is decided is sure", "internal/store/redisstore.rows.sure", "changes() && bytes", laterTime)),
		instead("redisstore: what is believed is told", "internal/store/redisstore.rows.believe", "r.guess, found = true, row", "found = row", redisHistories),
		without("redisstore: what another step may have written is told", "internal/store/redisstore.rows.believe", "guess = true", notBelieved),
		short(instead("redisstore: a lease counts from when it was decided", "internal/store/redisstore.rows.SetCall", "now)\n\tfrom := len(r", "now)\n\twhenWritten(&stored.Record, r.now)\n\tfrom := len(r", longEnough)),
		instead("redisstore: a lease is told as it was decided", "internal/store/redisstore.rows.end", "record, at", "record, r.now", longEnough),
		never("redisstore: a settlement tells nobody who waits", "internal/store/redisstore.rows.SetCall", "stored", redisWaits),
		never("redisstore: nobody waits", "dedupe.admitting.apply", "InFlight", redisWaits),
		instead("redisstore: a tenure counts from when it was decided", "internal/store/redisstore.Store.Bid", "is.Until = at.Add(is.Until.Sub(r.now))", "_ = at", longEnough),

		instead("redisstore: what differs is done", "internal/store/redisstore.rows.hear", "!several;", "true;", redisSteps),
		one("redisstore: what an error may have changed is believed", redisCommand, "	if c.err != nil {\n		r.forget()\n", "	if c.err != nil {\n", afterAnError),
		always("redisstore: another's clock counts for what was told", "internal/store/redisstore.rows.begin", "IsZero", timeTold),
		instead("redisstore: what may not be true fails a step", "internal/store/redisstore.command.decide", "sure() {", "sure() || r.failed != nil {", redisOutputs),
		instead("redisstore: a row is corrected, and the record that it was is not", "internal/store/redisstore.rows.hear", "text, read.record = body, nil", "text = body", redisHistories),
		never("redisstore: nothing that is written waits for replicas", "internal/store/redisstore.pipeline.exchangeWith", "changes || c", waitOnCluster),
		always("redisstore: what is looked at is told of an earlier time", "internal/store/redisstore.command.hear", "changes", laterTime),
		instead("redisstore: what was said is told of a later time", "internal/store/redisstore.rows.begin", "IsZero()", "Before(l.clock.now())", oneInstant),
		instead("redisstore: a step is decided for ever", "internal/store/redisstore.command.decide", "mostDecisions", "100*mostDecisions", notForEver),
		without("step.go: what is said again is not written again, seen on Redis", "dedupe.settling.apply", "SetCall", saidAgain),
		instead("redisstore: what was read counts anew from each step", "internal/store/redisstore.sinceWritten", "t.Location() == ofStep", "!t.IsZero()", redisHistories),
		instead("redisstore: half of a stamp is one", "internal/store/redisstore.stampOf", "== twice", `!= "" || once == twice`, impossibleState),
		instead("redisstore: a lane remembers any number of rows", "internal/store/redisstore.lane.expect", ">= mostRows", "< 0", someRows),

		never("state.go: an expired non_idempotent claim is taken over, on Redis", "dedupe.Record.contest", "Repeatable() || !req", redisHistories),
	}
}
