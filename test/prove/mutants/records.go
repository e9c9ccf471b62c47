package mutants

// The files of what a record, a connection or an answer says of a call.
const (
	callKnown    = "internal/call/known.go"
	callExecute  = "internal/call/execute.go"
	callRecorded = "internal/call/recorded.go"
	dedupeKnown  = "dedupe/known.go"
	connTrip     = "internal/backend/conn/trip.go"
	layout       = "dedupe/layout.go"
	resultFit    = "internal/call/result/fit.go"
	callIdentity = "internal/call/identity.go"
	serviceFront = "server/service.go"
	ownWord      = "internal/backend/ownword.go"
	mcpForgotten = "internal/backend/mcptool/forgotten.go"
	mcpInbox     = "internal/backend/mcptool/inbox.go"
)

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

// sealCompared is where a record is compared with its seal, and sealIgnored where it is not.
const (
	sealCompared = "binary.BigEndian.Uint32(sum) != seal(body, result)"
	sealIgnored  = "sum == nil && seal(body, result) > 0"
)

// records: what has happened is told, and nothing is taken for a proof that is none.
func records() []Mutant {
	return []Mutant{
		short(one("call: a call is refused without a look at its record", callExecute,
			"e.unlessKnown(ctx, c, refusal)", "refusal(dedupe.Absent)", knownID)),
		one("call: what is known is told to whoever uses the id", callRecorded, "!r.isOf() {\n\t\tr.Verdict", "false {\n\t\tr.Verdict", knownID),
		one("call: a refused call that runs is not waited for", callKnown, "== dedupe.Claimed && l.stay.seats.wait(l.Waiting) {", "== dedupe.Claimed && false {", knownID),
		one("dedupe: what a predecessor left is told as running", dedupeKnown, "if r.State == Claimed && d.fence.succeeds(", "if false && d.fence.succeeds(", knownInRedis),

		one("conn: no question before the first byte", connTrip, "	case !t.held():\n", "	case false:\n", rightToSend),
		short(one("conn: no question when a connection is had", connTrip, "	if t.held() {\n", "	if true {\n", rightToSend)),

		short(one("layout.go: a record in no state is read", layout, "int(s.State), int(Claimed), int(Held)", "int(s.State), 0, int(Held)", impossibleState)),
		one("layout.go: the seal is not looked at, seen on Redis", layout, sealCompared, sealIgnored, impossibleState),
		one("layout.go: a later layout is read", layout, "return OldestLayout <= version && version <= LayoutVersion", "return OldestLayout <= version", otherLayout),

		one("fit.go: what does not fit is not kept", resultFit, `if l.ref == "" && l.res.GetRecorded() {`, `if l.ref != "" && l.res.GetRecorded() {`, receivable),
		one("fit.go: nothing is left out", resultFit, "for f.total > cmp.Or(f.Most, MostBytes) && len(f.parts) > 0 {", "for f.total < cmp.Or(f.Most, 0) && len(f.parts) > 0 {", receivable),
		one("call: an id that is too long is taken", callIdentity, "	if len(id.value) > maxIDBytes {", "	if false {", madeUp),
		one("service.go: one call costs the batch", serviceFront, "		calls[i] = s.request(ctx, lease.Snapshot, one)\n",
			"		if calls[i] = s.request(ctx, lease.Snapshot, one); calls[i].Nameless != nil {\n			return nil, invalid(calls[i].Nameless)\n		}\n", nameless),

		one("ownword.go: the tool's own word is a proof, seen by calls", ownWord, "if !i.Effect.Repeatable() && ", "if false && ", toolsWord),
		one("ownword.go: an exit code is a proof", ownWord, "if !i.Effect.Repeatable() && ", "if false && ", exitCodes),
		one("ownword.go: isError is a proof", ownWord, "if !i.Effect.Repeatable() && ", "if false && ", errorResults),
		one("ownword.go: an error in place of a result is a proof", ownWord, "if !i.Effect.Repeatable() && ", "if false && ", errorAnswers),
		one("mcptool: any 404 says that the session is gone", mcpForgotten, "	if answers || !readable || !word || len(text) > longestWord {",
			"	if a.status != http.StatusNotFound && (answers || !readable || !word || len(text) > longestWord) {", sessionGone),
		// The reader of a kept connection may not have noticed what has come: the
		// question to the kernel is what says so.
		one("conn: an unasked answer answers the next call", connTrip, "	case t.kept && c.heard(t.received):\n", "	case false:\n", unasked),
		one("mcptool: an answer under another id is taken", mcpInbox, "	c := in.waiting[id]\n",
			"	c := in.waiting[id]\n	for other, waits := range in.waiting {\n		if c == nil {\n			id, c = other, waits\n		}\n	}\n", strayAnswers),
	}
}
