package mutants

// The files of what a step does.
const (
	stepFile   = "dedupe/step.go"
	sheetNames = "dedupe/rows.go"

	queueFile  = "dedupe/queue.go"
	journaling = "internal/store/journal/journal.go"
)

var (
	stepWrites   = test("./dedupe", "TestWhatAStepWrites")
	itsClaim     = test("./dedupe", "TestASettlementWithItsClaim")
	declaredAnew = test("./dedupe", "TestASettlementOfACallThatIsDeclaredAnew")
	keptEntries  = test("./internal/store/journal", "TestACrashAfterEachCallToTheDisk")
	refused      = test("./dedupe", "TestAReplayGoesAroundLargeEntriesThatAreRefused")
)

// steps: what a request reads and writes, on every engine.
func steps() []Mutant {
	return []Mutant{
		short(one("step.go: a record lives for the lease", stepFile,
			"a.begin(rows, a.req.Retention)", "a.begin(rows, a.req.Lease)", memoryHistories)),
		one("step.go: the clock of a process that was held up", stepFile, "old.Admit(*req, a.now)", "old.Admit(*req, a.now.Add(-20*time.Millisecond))", memoryHistories),
		one("step.go: an expired claim is told as running", stepFile, "Known{Record: old.Observed(n.now),", "Known{Record: old.Record,", memoryHistories),
		one("step.go: a superseded settlement is stored", stepFile, "if !s.Binds {", "if false {", stepWrites),
		one("step.go: what a lost settlement brings is kept", stepFile, "if !s.Binds {", "if false {", memoryConformance),
		one("step.go: what is said again is not written again", stepFile, "		rows.SetCall(s.Call, &s.next, 0, nil)\n", "", stepWrites),
		one("step.go: a renewal that is refused is stored", stepFile, "if !s.Binds {", "if !s.Binds && s.renewal == nil {", stepWrites),

		one("step.go: a claim waits for no replica", stepFile, "a.Binds = told.Verdict == Won", "a.Binds = false", stepWrites),
		short(one("step.go: a claim waits for no replica, seen on a Cluster", stepFile, "a.Binds = told.Verdict == Won", "a.Binds = false", waitOnCluster)),
		one("step.go: no step waits for a replica", stepFile, "s.Binds = s.verdict != Superseded", "s.Binds = false", stepWrites),

		one("step.go: a claim is not charged", stepFile, "a.move(&old.Record, &next)", "a.move(&next, &next)", memoryTallies),
		short(one("step.go: what did not run is not given back", stepFile, "s.move(&old.Record, &s.next)", "s.move(&s.next, &s.next)", memoryTallies)),
		one("step.go: a call that is restored is not charged", stepFile, "s.move(&old.Record, &s.next)", "if s.renewal == nil {\n			s.move(&old.Record, &s.next)\n		}", memoryTallies),
		one("step.go: what is given back to nobody begins a prompt", stepFile, "s.tally(back); c.found {", "s.tally(back); back != \"\" {", memoryTallies),
		one("step.go: a prompt that nobody began spends", stepFile, "; spent.found {", "; spent != &noTally {", memoryTallies),
		one("step.go: tokens of a result count for nothing", stepFile, "= spent.Spend(end.Tokens), true", "= spent.Spend(0), true", memoryTallies),
		one("step.go: what a loop reports is forgotten", stepFile, "drawn.Tally, drawn.changed = after, after != drawn.Tally", "_ = after", memoryTallies),
		one("step.go: a claim brings no logs", stepFile, "		rows.Logs(a.Call, a.req.Logs, &told.Logs)\n", "", memoryTallies),
		one("step.go: a log takes an entry twice", stepFile, "range entries {", "range append(entries[:len(entries):len(entries)], entries...) {", memoryTallies),
		one("step.go: a call that is known is noted as refused", stepFile, "if n.known.Record.State.Refused() {", "if true {", memoryTallies),
		short(one("state.go: a call that the store has forgotten stays forgotten", stateMachine, "case seen.State == Absent,\n", "case false,\n", itsClaim)),
		one("state.go: who did not run it knows better than who did", stateMachine, "(s.State == Done || s.State == Unknown && !known)", "(s.State == Absent || s.State == Unknown && !known)", itsClaim),
		one("state.go: who does not know overrules a resolution", stateMachine, "s.State == Unknown && !known)", "s.State == Unknown)", itsClaim),
		one("state.go: what may be repeated has not run", stateMachine, " && seen.Effect == claim.Effect", "", declaredAnew),
		one("step.go: a call that ran after all has no effect", stepFile, "old.State == NotRun || ", "", memoryConformance),
		one("state.go: an answer that was not heard is superseded", stateMachine, "		s.Epoch = seen.Epoch\n", "", itsClaim),
		short(one("journal: an entry is not synced", journaling, "err = f.Sync()", "_ = f.Sync", keptEntries)),
		one("journal: the name of an entry is not synced", journaling, "return j.disk.Sync()", "return nil", keptEntries),
		one("queue.go: what is refused stands in the way", queueFile, "			q.gaveUp.Store(rest[n-1].Number)\n", "", refused),
	}
}
