package mutants

import "regexp"

// The files of conversations.
const (
	conversationBook    = "internal/conversation/book.go"
	conversationGrammar = "internal/conversation/grammar.go"
	conversationRecords = "dedupe/dedupe.go"
	compactFile         = "internal/conversation/compact.go"
	fenceFile           = "internal/call/fence.go"
)

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
		one("conversation: any version is followed", conversationBook, "before.Version != a.Expected {", "before.Version < a.Expected {", test(pkg, "TestAStaleVersionIsRefused")),
		one("conversation: an append sent again is another one", conversationBook,
			"len(messages) > 0 && a.ID", "false && a.ID", test(pkg, "TestAnAppendIsSentAgain")),
		one("conversation: an append without an id is known again", conversationBook,
			"&& a.ID != \"\" &&", "&&", test(pkg, "TestTwoWritersWithTheSameText")),
		one("conversation: the same text is the same append", conversationBook,
			"[]string{a.ID, string(a.Provider), a.Turn}", "[]string{string(a.Provider), a.Turn}", test(pkg, "TestTwoWritersWithTheSameText")),
		one("conversation: a later call makes the oldest younger", conversationBook,
			"follows.called && !older", "follows.called && (older || !older)", test(pkg, "TestTheOldestOpenCallIsDated")),
		one("conversation: anything follows an open call", conversationGrammar,
			"len(t.open) == 0 {", "len(t.open) >= 0 {", test(pkg, "TestWhatNoProviderTakesIsRefused")),
		one("conversation: a call is answered that was not made", conversationGrammar,
			"if i < 0 {\n", "if i < 0 {\n\t\treturn nil\n\t}\n\tif i < 0 {\n", test(pkg, "TestWhatNoProviderTakesIsRefused")),
		short(one("compact: a result of the last turn is left out", compactFile, "return turns[first].start", "return s.bytes", test(pkg, "TestACompactedConversation"))),
		one("compact: one turn more is left out", compactFile, "max(len(turns)-c.AfterTurns, 0)", "max(min(len(s.turns)-c.AfterTurns+1, len(s.turns)-1), 0)", test(pkg, "TestACompactedConversation")),
		one("compact: more is left out than asked for", compactFile, "left -= turns[first].saved", "left -= 0 * s.turns[first].saved", test(pkg, "TestWhatIsLeftOutIsNoMoreThanAskedFor")),
		one("compact: a short result grows", compactFile, "len(quoted)+minSaved > len(content)", "false", test(pkg, "TestACompactedConversation")),
		one("compact: a result is another conversation's", "internal/conversation/ref.go", "r.id == id && sumOf(key.ID, text) == sum", "r.id == id && sum != text", test(pkg, "TestAResultThatWasLeftOutIsItsConversations")),
		one("conversation: a call without a record has not run, however long ago", conversationRecords,
			"age > d.options.Retention-d.options.Retention/10", "age < 0", test("./server", "TestACallOfLongAgoMayHaveRun")),
		short(one("fence: what is answered is not closed", fenceFile, "if closing != nil && !slices", "if closing != nil && key.ID == \"\" && !slices", test("./server", "TestACallThatItsConversationHasAnsweredNeverRuns"))),
		one("fence: what has run is answered otherwise", fenceFile, "case !r.mayBeSaid(answer.Text) ||", "case false ||", test("./server", "TestACallThatHasRunIsNotAnsweredOtherwise")),
		one("fence: what runs is answered", fenceFile, "case record.State == dedupe.Claimed:", "case false:", test("./server", "TestARunningCallIsWaitedFor")),
		one("fence: what may have run has not", "dedupe/record.go", "return r.Effect.Repeatable() && (r.Attempts > 0", "return false && (r.Attempts > 0", test("./server", "TestWhatMayHaveRunIsToldAsThatByAll")),
		short(one("closing.go: a call is closed whatever has become of it", "dedupe/closing.go", "!bytes.Equal(current.AppendSealed(nil), c.Seen.stored.AppendSealed(nil)) {", "len(bytes.Clone(current.AppendSealed(nil))) < 0 {", memoryClosings)),
		one("embedded: a conversation answers what runs", "internal/store/embedded/conversation.go", "!dedupe.Shut(t, w.Closings) {", "!dedupe.Shut(t, w.Closings) && t.failed != nil {", embeddedClosings),
		one("redisstore: a conversation answers what runs", redisConversation, "if !dedupe.Shut(r, w.Closings) {", "if !dedupe.Shut(r, w.Closings) && r.failed != nil {", redisClosings),
		one("redisstore: what is refused is appended", redisConversation, "			r.writes = r.writes[:0]\n			return\n", "			return\n", redisClosings),
		one("redisstore: any head is followed", redisConversation, "if before != string(w.Was) {", "if false {", redisAppends),
	}
}
