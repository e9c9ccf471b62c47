package mutants

var (
	knownID         = test("./internal/call", "TestAKnownIDIsAnsweredFromItsRecord")
	knownInRedis    = test("./internal/store/redisstore", "TestAKnownIDIsAnsweredFromItsRecord")
	rightToSend     = test("./internal/backend/httptool", "TestTheRightToSendIsAskedWhenTheConnectionIsThere")
	impossibleState = test("./internal/store/redisstore", "TestImpossibleRecords")
	otherLayout     = test("./internal/store/redisstore", "TestARecordOfAnotherLayout")
	receivable      = test("./server", "TestAClientWithDefaultSettingsReceivesEveryResult")
	madeUp          = test("./server", "TestWhatAModelMakesUpIsAResult")
	nameless        = test("./server", "TestACallWithoutAnIDCostsOneResultOfABatch")
	toolsWord       = test("./internal/call", "TestTheToolsOwnWordThatItFailed")
	exitCodes       = test("./internal/backend/exectool", "TestExitCodes")
	errorResults    = test("./internal/backend/mcptool", "TestResultsThatAreFailures")
	errorAnswers    = test("./internal/backend/mcptool", "TestErrorsInPlaceOfAResult")
	sessionGone     = test("./internal/backend/mcptool", "TestOnlyTheTransportsWordsProveThatTheSessionIsGone")
	unasked         = test("./internal/backend/httptool", "TestAnAnswerThatComesLaterAnswersNothing")
	strayAnswers    = test("./internal/backend/mcptool", "TestAnAnswerUnderAStaleIDAnswersNothing")
)

// records: what has happened is told, and nothing is taken for a proof that is none.
func records() []Mutant {
	return []Mutant{
		short(instead("call: a call is refused without a look at its record", "internal/call.Executor.execute", "e.unlessKnown(ctx, c, refusal)", "refusal(dedupe.Absent)", knownID)),
		never("call: what is known is told to whoever uses the id", "internal/call.recorded.known", "isOf", knownID),
		never("call: a refused call that runs is not waited for", "internal/call.lookup.lookUp", "Waiting", knownID),
		never("dedupe: what a predecessor left is told as running", "dedupe.Dedupe.outlived", "Claimed", knownInRedis),

		never("conn: no question before the first byte", "internal/backend/conn.Trip.judge", "held", rightToSend),
		short(always("conn: no question when a connection is had", "internal/backend/conn.Trip.onlyAsk", "held", rightToSend)),

		short(instead("layout.go: a record in no state is read", "dedupe.Stored.Verify", "int(Claimed)", "0", impossibleState)),
		instead("layout.go: the seal is not looked at, seen on Redis", "dedupe.DecodeSealed", "binary.BigEndian.Uint32(sum) != seal(body, result)", "sum == nil && seal(body, result) > 0", impossibleState),
		always("layout.go: a later layout is read", "dedupe.KnownLayout", "LayoutVersion", otherLayout),

		instead("fit.go: what does not fit is not kept", "internal/call/result.leaving.recorded", `ref == ""`, `ref != ""`, receivable),
		instead("fit.go: nothing is left out", "internal/call/result.Fitting.Add", "> cmp.Or(f.Most, MostBytes)", "< cmp.Or(f.Most, 0)", receivable),
		never("call: an id that is too long is taken", "internal/call.unfit", "maxIDBytes", madeUp),
		instead("service.go: one call costs the batch", "server.Service.ExecuteTools", "calls[i] = s.request(ctx, lease.Snapshot, one)", "if calls[i] = s.request(ctx, lease.Snapshot, one); calls[i].Nameless != nil {\n\t\t\treturn nil, invalid(calls[i].Nameless)\n\t\t}", nameless),

		never("ownword.go: the tool's own word is a proof, seen by calls", "internal/backend.Invocation.OwnWord", "Repeatable", toolsWord),
		never("ownword.go: an exit code is a proof", "internal/backend.Invocation.OwnWord", "Repeatable", exitCodes),
		never("ownword.go: isError is a proof", "internal/backend.Invocation.OwnWord", "Repeatable", errorResults),
		never("ownword.go: an error in place of a result is a proof", "internal/backend.Invocation.OwnWord", "Repeatable", errorAnswers),
		instead("mcptool: any 404 says that the session is gone", "internal/backend/mcptool.wire.checkSession", "answers || !readable || !word || len(text) > longestWord", "a.status != http.StatusNotFound && (answers || !readable || !word || len(text) > longestWord)", sessionGone),
		// The reader of a kept connection may not have noticed what has come: the
		// question to the kernel is what says so.
		never("conn: an unasked answer answers the next call", "internal/backend/conn.Trip.judge", "kept", unasked),
		instead("mcptool: an answer under another id is taken", "internal/backend/mcptool.inbox.take", "[id]\n\tdelete", "[id]\n\tfor other, waits := range in.waiting {\n\t\tif c == nil {\n\t\t\tid, c = other, waits\n\t\t}\n\t}\n\tdelete", strayAnswers),
	}
}
