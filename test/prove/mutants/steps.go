package mutants

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
		instead("step.go: a record lives for the lease", "dedupe.admitting.apply", "Retention", "Lease", memoryHistories),
		instead("step.go: the clock of a process that was held up", "dedupe.admitting.decide", "req, a.now", "req, a.now.Add(-20*time.Millisecond)", memoryHistories),
		instead("step.go: an expired claim is told as running", "dedupe.noting.apply", "Observed(n.now)", "Record", memoryHistories),
		never("step.go: a superseded settlement is stored", "dedupe.settling.apply", "Binds", stepWrites),
		never("step.go: what a lost settlement brings is kept", "dedupe.settling.apply", "Binds", memoryConformance),
		without("step.go: what is said again is not written again", "dedupe.settling.apply", "SetCall", stepWrites),
		instead("step.go: a renewal that is refused is stored", "dedupe.settling.apply", "Binds {", "Binds && s.renewal == nil {", stepWrites),

		instead("step.go: a claim waits for no replica", "dedupe.admitting.apply", "told.Verdict == Won", "false", stepWrites),
		short(instead("step.go: a claim waits for no replica, seen on a Cluster", "dedupe.admitting.apply", "told.Verdict == Won", "false", waitOnCluster)),
		instead("step.go: no step waits for a replica", "dedupe.settling.apply", "s.verdict != Superseded", "false", stepWrites),

		instead("step.go: a claim is not charged", "dedupe.admitting.decide", "&old.Record", "&next", memoryTallies),
		short(instead("step.go: what did not run is not given back", "dedupe.settling.apply", "old.Record", "s.next", memoryTallies)),
		instead("step.go: a call that is restored is not charged", "dedupe.settling.apply", "s.move(&old.Record, &s.next)", "if s.renewal == nil {\n\t\t\ts.move(&old.Record, &s.next)\n\t\t}", memoryTallies),
		instead("step.go: what is given back to nobody begins a prompt", "dedupe.step.move", "c.found", `back != ""`, memoryTallies),
		instead("step.go: a prompt that nobody began spends", "dedupe.settling.apply", "spent.found", "spent != &noTally", memoryTallies),
		instead("step.go: tokens of a result count for nothing", "dedupe.settling.apply", "(end.Tokens)", "(0)", memoryTallies),
		instead("step.go: what a loop reports is forgotten", "dedupe.admitting.decide", "drawn.Tally, drawn.changed = after, after != drawn.Tally", "_ = after", memoryTallies),
		without("step.go: a claim brings no logs", "dedupe.admitting.apply", "Logs", memoryTallies),
		instead("step.go: a log takes an entry twice", "dedupe.step.append", "entries {", "append(entries[:len(entries):len(entries)], entries...) {", memoryTallies),
		always("step.go: a call that is known is noted as refused", "dedupe.noting.apply", "Refused", memoryTallies),
		short(instead("state.go: a call that the store has forgotten stays forgotten", "dedupe.Record.settleLate", "now)\n\tcase seen.State == Absent,\n\t\t(seen", "now)\n\tcase false,\n\t\t(seen", itsClaim)),
		instead("state.go: who did not run it knows better than who did", "dedupe.Record.settleLate", "Done", "Absent", itsClaim),
		instead("state.go: who does not know overrules a resolution", "dedupe.Record.settleLate", "Unknown && !known", "Unknown", itsClaim),
		always("state.go: what may be repeated has not run", "dedupe.Record.settleLate", "Effect", declaredAnew),
		never("step.go: a call that ran after all has no effect", "dedupe.settling.apply", "NotRun", memoryConformance),
		without("state.go: an answer that was not heard is superseded", "dedupe.Record.settleLate", "Epoch = seen", itsClaim),
		short(instead("journal: an entry is not synced", "internal/store/journal.Journal.write", "err = f.Sync()", "_ = f.Sync", keptEntries)),
		instead("journal: the name of an entry is not synced", "internal/store/journal.Journal.write", "j.disk.Sync()", "nil", keptEntries),
		without("queue.go: what is refused stands in the way", "dedupe.queue.replay", "gaveUp", refused),
	}
}
