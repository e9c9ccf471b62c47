package mutants

// The files of what a step does.
const (
	stepFile   = "dedupe/step.go"
	sheetNames = "dedupe/rows.go"
	lateFile   = "dedupe/forgotten.go"
	queueFile  = "dedupe/queue.go"
	journaling = "dedupe/journal/journal.go"
)

var (
	stepWrites  = test("./dedupe", "TestWhatAStepWrites")
	itsClaim    = test("./dedupe", "TestASettlementWithItsClaim")
	keptEntries = test("./dedupe/journal", "TestACrashAfterEachCallToTheDisk")
	refused     = test("./dedupe", "TestAReplayGoesAroundLargeEntriesThatAreRefused")
)

// steps: what a request reads and writes, on every engine.
func steps() []Mutant {
	return []Mutant{
		short(one("step.go: a record lives for the lease", stepFile,
			"rows.SetCall(req.Key, &a.admission.Record, req.Retention)", "rows.SetCall(req.Key, &a.admission.Record, req.Lease)", memoryHistories)),
		one("step.go: the clock of a process that was held up", stepFile, "old.Admit(*req, now)", "old.Admit(*req, now.Add(-20*time.Millisecond))", memoryHistories),
		one("step.go: an expired claim is told as running", stepFile, "Seen{Record: old.Observed(rows.Now()),", "Seen{Record: old.Record,", memoryHistories),
		one("step.go: a superseded settlement is stored", stepFile, "if s.verdict = verdict; verdict == Superseded {", "if s.verdict = verdict; false {", stepWrites),
		one("step.go: what a lost settlement brings is kept", stepFile, "if s.verdict = verdict; verdict == Superseded {", "if s.verdict = verdict; false {", memoryConformance),
		one("step.go: what is said again is not written again", stepFile, "		rows.Confirm(end.Key)\n", "", stepWrites),
		one("step.go: a renewal that is refused is stored", stepFile, "if r.ok = ok; !ok {", "if r.ok = ok; false {", stepWrites),
		one("step.go: a restoration that is refused is stored", stepFile, "!r.restored {", "false {", stepWrites),

		one("step.go: a claim waits for no replica", stepFile, "return a.admission.Verdict == Won }", "return false }", stepWrites),
		short(one("step.go: a claim waits for no replica, seen on a Cluster", stepFile, "return a.admission.Verdict == Won }", "return false }", waitOnCluster)),
		one("step.go: a settlement waits for no replica", stepFile, "return s.verdict != Superseded }", "return false }", stepWrites),
		one("step.go: a renewal waits for no replica", stepFile, "return r.ok }", "return false }", stepWrites),
		one("step.go: a restoration waits for no replica", stepFile, "return r.restored }", "return false }", stepWrites),

		one("step.go: a claim is not charged", stepFile, "Record: next}\n	if err := tallies.move(old.Moves(next)); err != nil {", "Record: next}\n	if err := tallies.move(nil); err != nil {", memoryTallies),
		short(one("step.go: what did not run is not given back", stepFile, "key: s.key}\n	if err := tallies.move(old.Moves(*next)); err != nil {", "key: s.key}\n	if err := tallies.move(nil); err != nil {", memoryTallies)),
		one("step.go: a call that is restored is not charged", stepFile, "tallies.move(old.Moves(r.record))", "tallies.move(nil)", memoryTallies),
		one("step.go: what is given back to nobody begins a prompt", stepFile, "if c.found || m.Calls > 0 {", "if c.found || m.Calls != 0 {", memoryTallies),
		one("step.go: a prompt that nobody began spends", stepFile, "if spent != nil && spent.found {", "if spent != nil {", memoryTallies),
		one("step.go: tokens of a result count for nothing", stepFile, "		spent.set(spent.Spend(s.settlement.Spend.Tokens))\n", "", memoryTallies),
		one("step.go: what a loop reports is forgotten", stepFile, "drawn.set(after)", "_ = after", memoryTallies),
		one("step.go: a claim brings no logs", stepFile, "if err == nil && verdict == Won {", "if false {", memoryTallies),
		one("step.go: a log takes an entry twice", stepFile, "	for _, a := range appends {\n		if err :=", "	for _, a := range append(appends[:len(appends):len(appends)], appends...) {\n		if err :=", memoryTallies),
		one("step.go: a call that is known is noted as refused", stepFile, "if n.noted.Record.Refused() {", "if true {", memoryTallies),

		short(one("forgotten.go: a call that the store has forgotten stays forgotten", lateFile, "case seen.State == Absent,\n", "case false,\n", itsClaim)),
		one("forgotten.go: who did not run it knows better than who did", lateFile, "(s.State == Done ||", "(s.State == Absent ||", itsClaim),
		one("forgotten.go: who does not know overrules a resolution", lateFile, "s.State == Unknown && forgotten)", "s.State == Unknown)", itsClaim),
		one("forgotten.go: an answer that was not heard is superseded", lateFile, "		s.Epoch = seen.Epoch\n", "", itsClaim),
		short(one("journal: an entry is not synced", journaling, "err = f.Sync()", "_ = f.Sync", keptEntries)),
		one("journal: the name of an entry is not synced", journaling, "return j.disk.Sync()", "return nil", keptEntries),
		one("queue.go: what is refused stands in the way", queueFile, "			q.gaveUp = rest[n-1].Number\n", "", refused),
	}
}
