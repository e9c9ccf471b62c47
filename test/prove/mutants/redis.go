package mutants

// The files of the engine on Redis.
const (
	stepLua           = "internal/store/redisstore/step.lua"
	redisRows         = "internal/store/redisstore/rows.go"
	redisCommand      = "internal/store/redisstore/command.go"
	redisLane         = "internal/store/redisstore/lane.go"
	redisStamp        = "internal/store/redisstore/stamp.go"
	redisPipeline     = "internal/store/redisstore/pipeline.go"
	redisTenure       = "internal/store/redisstore/tenure.go"
	redisConversation = "internal/store/redisstore/conversation.go"
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
		short(one("step.lua: something is written before anything is compared", stepLua, "local answer = now < from and {now}",
			"local answer = now < from and {now}\nif #keys > count then redis.call('SET', keys[#keys], args[#args]) end\n", doneIfTrue)),
		one("step.lua: a list may have any length", stepLua, "if redis.call('LLEN', key) ~= tonumber(amount) then", "if false then", stepDoes),
		one("step.lua: a text that is changed is kept for ever", stepLua, "text, 'KEEPTTL')", "text)", stepDoes),
		one("step.lua: nothing is deleted", stepLua, "    redis.call('DEL', key)\n", "", stepDoes),
		one("step.lua: a list is kept for ever", stepLua, "what == 'e' then\n    redis.call('PEXPIRE', key, amount)\n", "what == 'e' then\n", stepDoes),
		one("step.lua: a log only grows", stepLua, "elseif size > 2 * #text * string.byte(text) then", "elseif false then", logIsCut),
		one("step.lua: a log is cut by one entry too many", stepLua, "#starts + 1 - string.byte", "#starts + 2 - string.byte", logIsCut),
		one("step.lua: as many messages are told as there are", stepLua, "if left >= 0 or #told == before then", "if true then", redisReads),
		one("step.lua: a message that is larger than asked for is not told", stepLua, "if left >= 0 or #told == before then", "if left >= 0 then", redisReads),
		one("step.lua: nobody is told of a settlement", stepLua, "    redis.pcall('PUBLISH', text, key)\n", "", redisWaits),

		one("redisstore: who panics keeps the lane", redisPipeline, "		if group := l.next(again); len(group) > 0 {", "		if group := again; len(group) > 0 {", test("./internal/store/redisstore", "TestAStepThatPanics")),
		short(one("redisstore: what has changed something is decided again", redisCommand, "case done && r.changes():", "case false:", redisSteps)),
		short(one("redisstore: whatever is decided is sure", redisRows, "!r.changes() && bytes.Equal(", "true || bytes.Equal(", laterTime)),
		one("redisstore: what is believed is told", redisRows, "r.guess, found = true, row{key", "found = row{key", redisHistories),
		one("redisstore: what another step may have written is told", redisRows, "		r.guess = true\n", "", notBelieved),
		short(one("redisstore: a lease counts from when it was decided", redisRows, "	sinceWritten(&stored.Record, r.now)\n", "	sinceWritten(&stored.Record, r.now)\n	whenWritten(&stored.Record, r.now)\n", longEnough)),
		one("redisstore: a lease is told as it was decided", redisRows, "whenWritten(w.record, at)", "whenWritten(w.record, r.now)", longEnough),
		one("redisstore: a settlement tells nobody who waits", redisRows, "	if waited && !stored.Mark {\n", "	if false {\n", redisWaits),
		one("redisstore: nobody waits", stepFile, "case told.Verdict == InFlight:", "case false:", redisWaits),
		one("redisstore: a tenure counts from when it was decided", redisTenure, "is.Until = at.Add(is.Until.Sub(r.now))", "_ = at", longEnough),

		short(one("redisstore: what differs is done", redisCommand, "if done = !several; len(texts) == 1 {", "if done = true; len(texts) == 1 {", redisSteps)),
		one("redisstore: what an error may have changed is believed", redisCommand, "	if c.err != nil {\n		r.forget()\n", "	if c.err != nil {\n", afterAnError),
		one("redisstore: another's clock counts for what was told", redisRows, "	if r.now.IsZero() {", "	if true {", timeTold),
		one("redisstore: what may not be true fails a step", redisCommand, "	if r.sure() {", "	if r.sure() || r.failed != nil {", redisOutputs),
		one("redisstore: a row is corrected, and the record that it was is not", redisCommand, "read.text, read.record = body, nil", "read.text = body", redisHistories),
		one("redisstore: nothing that is written waits for replicas", redisPipeline, "changes = changes || c.rows.changes()", "changes = false", waitOnCluster),
		short(one("redisstore: what is looked at is told of an earlier time", redisCommand, "case done && r.changes():", "case done:", laterTime)),
		one("redisstore: what was said is told of a later time", redisRows, "	if r.now.IsZero() {", "	if r.now.Before(l.clock.now()) {", oneInstant),
		one("redisstore: a step is decided for ever", redisCommand, "c.tried > mostDecisions {", "c.tried > 100*mostDecisions {", notForEver),
		one("step.go: what is said again is not written again, seen on Redis", stepFile, "		rows.SetCall(s.Call, &s.next, 0, nil)\n", "", saidAgain),
		one("redisstore: what was read counts anew from each step", redisStamp, "if t.Location() == ofStep {", "if !t.IsZero() {", redisHistories),
		one("redisstore: half of a stamp is one", redisStamp, "; once == twice {", `; once != "" || once == twice {`, impossibleState),
		one("redisstore: a lane remembers any number of rows", redisLane, "len(l.recent) >= mostRows {", "len(l.recent) < 0 {", someRows),

		one("state.go: an expired non_idempotent claim is taken over, on Redis", stateMachine,
			"case !r.Effect.Repeatable() || !req.Effect.Repeatable():", "case false:", redisHistories),
	}
}
