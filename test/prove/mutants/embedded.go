package mutants

// embedded: the log of the embedded store, and what is found in it.
func embedded() []Mutant {
	in := func(name string) Suite { return test("./internal/store/embedded", name) }
	return []Mutant{
		one("embedded: a record is kept for half of its retention", embeddedRows, "t.now.Add(retention), stored", "t.now.Add(retention/2), stored", embeddedHistories),
		one("embedded: what has expired is there", transaction, "if t.failed != nil || !known || r.expires <= t.ms() && kind != messageRow {", "if t.failed != nil || !known {", embeddedTallies),
		one("embedded: a value that is changed loses its time", embeddedRows, "if keep == 0 {", "if keep < 0 {", valueTime),
		one("embedded: a replay has no result", layout, "Result: result,", "Result: nil,", embeddedHistories),
		one("embedded: claims of an earlier incarnation stay", reopen, "if stored.State != dedupe.Claimed {", "if stored.State != dedupe.Unknown {", embeddedHistories),
		one("embedded: claims of an earlier incarnation are given back", reopen,
			"stored.Record = observed\n", "stored.Record = observed\n\t\t\tstored.State = dedupe.NotRun\n", embeddedHistories),
		short(one("embedded: commits without a sync", database, "		err = f.sync()\n", "", unsynced)),
		one("embedded: does not say that a commit is on the disk", database, "		err = f.confirm()\n", "", in("TestDamageOfTheLastCommit")),
		one("embedded: says that a commit is on the disk before it is", database, "		err = f.sync()\n", "		err = errors.Join(f.confirm(), f.sync())\n", in("TestACommitIsConfirmedByTheDisk")),
		one("embedded: a commit that fails is tried again", database, "	if err != nil {\n		return d.fail(err)\n	}\n	d.mu.Lock()", "	if err != nil {\n		return err\n	}\n	d.mu.Lock()", in("TestADiskThatIsFullAtTheSync")),
		one("embedded: who fails leaves something behind", database, "t.rollback(before, frames)", "_ = frames", in("TestAPoisonedRequestFailsAlone")),
		one("embedded: what is live is not moved", transaction, "	err = t.add(c, f.key, f.value)\n", "", in("TestWhatIsLiveIsMoved")),
		one("embedded: messages are not moved", "internal/store/embedded/index.go", "if number < x.messages[of] {", "if number < 0 {", in("TestWhatIsLiveIsMoved")),
		one("embedded: messages are not kept for as long as their head", transaction, "if f.kind == messageRow {", "if f.kind == 0 {", in("TestExpiredConversationsLeaveTheFile")),
		one("embedded: messages are over before their head", transaction, "r.expires <= t.ms() && kind != messageRow {", "r.expires <= t.ms() {", in("TestAMessageIsThereForAsLongAsItsHead")),
		one("embedded: what was changed is moved over it", transaction, "newer || t.index.rows[c.of].place != f.place {", "newer && f.size == 0 || t.index.rows[c.of].place != f.place {", in("TestARowIsChangedAsItIsMoved")),
		one("embedded: what has expired stays in the index", transaction, "		c.gone = true\n", "		return true, nil\n", in("TestExpiredRecordsLeaveTheFile")),
		one("embedded: half a commit is corrupt", reopen, "if other.end != f.durable {", "if other.end >= 0 {", in("TestALossOfPowerLeavesAWholeCommitOrNone")),
		one("embedded: the head that is in force is written over", reopen, "f.head, f.slot = other, 1-f.slot", "f.head = other", in("TestALossOfPowerLeavesAWholeCommitOrNone")),
		one("embedded: a frame passes for one of another place", storeFile, "castagnoli[byte(sum)^byte(at>>shift)]", "castagnoli[byte(sum)]", in("FuzzFrame")),
		one("embedded: segments are free before they are", storeFile, "(part+1)*partSize <= f.tail", "part*partSize <= f.tail", in("TestWhatIsLiveIsMoved")),
		one("embedded: nothing is kept for what ends", database, "least = d.file.reserve()", "least = 0", in("TestWhatDoesNotFitTakesNobodyWithIt")),
		one("embedded: half a commit passes for a whole one", reopen, "err != nil || sum != f.sum", "err != nil || sum < 0", in("TestTwoCommitsThatCameToNoEndAreNone")),
		one("embedded: what came to no end is not free", reopen, "		if err := f.readSegments(); err != nil {\n", "		if err != nil {\n", in("TestSegmentsOfACommitThatCameToNoEndAreFree")),
		one("embedded: what a killed process has written is not synced", reopen, "	return f.sync()\n", "	return nil\n", in("TestWhatAKilledProcessHasWrittenIsSynced")),
		one("embedded: a large row is in the way", database, "max(least, 1)+partsOf(t.largest)", "max(least, 1)", in("TestALargeRecordIsMovedInAFullFile")),
		one("embedded: does not look where its file is", "internal/store/embedded/medium.go", "case !os.SameFile(d.info, info):", "case !os.SameFile(info, info):", fileGone),
		one("embedded: does not look at what its file says", storeFile, "err != nil || f.scratch != f.heads[i]", "err != nil && f.scratch != f.heads[i]", fileGone),
	}
}
