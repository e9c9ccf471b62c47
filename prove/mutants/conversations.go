package mutants

// The files of conversations.
const (
	conversationBook    = "conversation/book.go"
	conversationGrammar = "conversation/grammar.go"
	conversationRecords = "dedupe/dedupe.go"
	compactFile         = "conversation/compact.go"
)

// conversations: one of many appends, and no call is forgotten.
func conversations() []Mutant {
	const pkg = "./conversation"
	return []Mutant{
		one("conversation: any version is followed", conversationBook, "before.Version != a.Expected {", "before.Version < a.Expected {", test(pkg, "TestAStaleVersionIsRefused")),
		one("conversation: an append sent again is another one", conversationBook,
			"before.Last == a.name() &&", "false &&", test(pkg, "TestAnAppendIsSentAgain")),
		one("conversation: a later call makes the oldest younger", conversationBook,
			"follows.called && !older", "follows.called && (older || !older)", test(pkg, "TestTheOldestOpenCallIsDated")),
		one("conversation: anything follows an open call", conversationGrammar,
			"len(t.open) == 0 {", "len(t.open) >= 0 {", test(pkg, "TestWhatNoProviderTakesIsRefused")),
		one("conversation: a call is answered that was not made", conversationGrammar,
			"if i < 0 {\n", "if i < 0 {\n\t\treturn nil\n\t}\n\tif i < 0 {\n", test(pkg, "TestWhatNoProviderTakesIsRefused")),
		short(one("compact: a result of the last turn is left out", compactFile, "return s.turns[first].start", "return s.bytes", test(pkg, "TestACompactedConversation"))),
		one("compact: one turn more is left out", compactFile, "max(len(s.turns)-c.AfterTurns, 0)", "max(min(len(s.turns)-c.AfterTurns+1, len(s.turns)-1), 0)", test(pkg, "TestACompactedConversation")),
		one("compact: more is left out than asked for", compactFile, "left -= s.turns[first].saved", "left -= 0 * s.turns[first].saved", test(pkg, "TestWhatIsLeftOutIsNoMoreThanAskedFor")),
		one("compact: a short result grows", compactFile, "len(quoted)+minSaved > len(content)", "false", test(pkg, "TestACompactedConversation")),
		one("compact: a result is another conversation's", "conversation/ref.go", "r.id == id && sumOf(key.ID, text) == sum", "r.id == id && sum != text", test(pkg, "TestAResultThatWasLeftOutIsItsConversations")),
		one("conversation: a call without a record has not run, however long ago", conversationRecords,
			"time.Since(madeAt) > d.options.Retention-d.options.Retention/10", "time.Since(madeAt) < 0", test("./server", "TestACallOfLongAgoMayHaveRun")),
	}
}
