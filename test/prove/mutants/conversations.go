package mutants

import "regexp"

var (
	closed           = regexp.MustCompile(`(?m)^\s+--- FAIL: Test(Conformance(InMemory)?|OneServer)/a_call_is_closed`)
	memoryClosings   = Suite{"./internal/store/embedded", "^TestConformanceInMemory$/^a_call_is_closed", closed}
	redisClosings    = Suite{"./internal/store/redisstore", "^TestOneServer$/^a_call_is_closed", closed}
	embeddedClosings = Suite{"./internal/store/embedded", "^TestConformance$/^a_call_is_closed", closed}
)

// conversations: one of many appends, and no call is forgotten.
func conversations() []Mutant {
	const pkg = "./internal/conversation"
	return []Mutant{
		instead("conversation: any version is followed", "internal/conversation.Book.follow", "Version != a", "Version < a", test(pkg, "TestAStaleVersionIsRefused")),
		never("conversation: an append sent again is another one", "internal/conversation.Book.write", "len(messages)", test(pkg, "TestAnAppendIsSentAgain")),
		always("conversation: an append without an id is known again", "internal/conversation.Book.write", `ID != ""`, test(pkg, "TestTwoWritersWithTheSameText")),
		instead("conversation: the same text is the same append", "internal/conversation.Append.name", "a.ID, string", "string", test(pkg, "TestTwoWritersWithTheSameText")),
		instead("conversation: a later call makes the oldest younger", "internal/conversation.Book.follow", "!older", "(older || !older)", test(pkg, "TestTheOldestOpenCallIsDated")),
		instead("conversation: anything follows an open call", "internal/conversation.tracker.nothingOpen", "(t.open) == 0", "(t.open) >= 0", test(pkg, "TestWhatNoProviderTakesIsRefused")),
		one("conversation: a call is answered that was not made", "internal/conversation/grammar.go",
			"if i < 0 {\n", "if i < 0 {\n\t\treturn nil\n\t}\n\tif i < 0 {\n", test(pkg, "TestWhatNoProviderTakesIsRefused")),
		short(instead("compact: a result of the last turn is left out", "internal/conversation.survey.before", "turns[first].start", "s.bytes", test(pkg, "TestACompactedConversation"))),
		instead("compact: one turn more is left out", "internal/conversation.survey.before", "len(turns)-c.AfterTurns", "min(len(s.turns)-c.AfterTurns+1, len(s.turns)-1)", test(pkg, "TestACompactedConversation")),
		instead("compact: more is left out than asked for", "internal/conversation.survey.before", "-= turns", "-= 0 * s.turns", test(pkg, "TestWhatIsLeftOutIsNoMoreThanAskedFor")),
		never("compact: a short result grows", "internal/conversation.standIn", "minSaved", test(pkg, "TestACompactedConversation")),
		instead("compact: a result is another conversation's", "internal/conversation.Book.Result", "sumOf(key.ID, text) == sum", "sum != text", test(pkg, "TestAResultThatWasLeftOutIsItsConversations")),
		instead("conversation: a call without a record has not run, however long ago", "dedupe.Dedupe.MayBeForgotten", "> d.options.Retention-d.options.Retention/10", "< 0", test("./server", "TestACallOfLongAgoMayHaveRun")),
		short(instead("fence: what is answered is not closed", "internal/call.Records.Fence", "!slices", `key.ID == "" && !slices`, test("./server", "TestACallThatItsConversationHasAnsweredNeverRuns"))),
		never("fence: what has run is answered otherwise", "internal/call.fence.decide", "mayBeSaid", test("./server", "TestACallThatHasRunIsNotAnsweredOtherwise")),
		never("fence: what runs is answered", "internal/call.fence.decide", "Claimed", test("./server", "TestARunningCallIsWaitedFor")),
		never("fence: what may have run has not", "dedupe.Record.MayHaveRun", "Repeatable", test("./server", "TestWhatMayHaveRunIsToldAsThatByAll")),
		short(instead("closing.go: a call is closed whatever has become of it", "dedupe.Shut", "!bytes.Equal(current.AppendSealed(nil), c.Seen.stored.AppendSealed(nil))", "len(bytes.Clone(current.AppendSealed(nil))) < 0", memoryClosings)),
		instead("embedded: a conversation answers what runs", "internal/store/embedded.txn.writeConversation", "(t, w.Closings) {", "(t, w.Closings) && t.failed != nil {", embeddedClosings),
		instead("redisstore: a conversation answers what runs", "internal/store/redisstore.Store.WriteConversation", "(r, w.Closings) {", "(r, w.Closings) && r.failed != nil {", redisClosings),
		without("redisstore: what is refused is appended", "internal/store/redisstore.Store.WriteConversation", "writes", redisClosings),
		never("redisstore: any head is followed", "internal/store/redisstore.Store.WriteConversation", "string", redisAppends),
	}
}
