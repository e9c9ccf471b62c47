package mutants

// embedded: the log of the embedded store, and what is found in it.
func embedded() []Mutant {
	in := func(name string) Suite { return test("./internal/store/embedded", name) }
	return []Mutant{
		instead("embedded: a record is kept for half of its retention", "internal/store/embedded.txn.SetCall", "Add(retention)", "Add(retention/2)", embeddedHistories),
		never("embedded: what has expired is there", "internal/store/embedded.txn.get", "messageRow", embeddedTallies),
		instead("embedded: a value that is changed loses its time", "internal/store/embedded.txn.SetValue", "keep == 0", "keep < 0", valueTime),
		instead("embedded: a replay has no result", "dedupe.DecodeSealed", "Result: result", "Result: nil", embeddedHistories),
		instead("embedded: claims of an earlier incarnation stay", "internal/store/embedded.decide", "Claimed", "Unknown", embeddedHistories),
		instead("embedded: claims of an earlier incarnation are given back", "internal/store/embedded.decide", "observed\n\t\t\tunknown", "observed\n\t\t\tstored.State = dedupe.NotRun\n\t\t\tunknown", embeddedHistories),
		short(without("embedded: commits without a sync", "internal/store/embedded.database.commit", "sync", unsynced)),
		without("embedded: does not say that a commit is on the disk", "internal/store/embedded.database.commit", "confirm", in("TestDamageOfTheLastCommit")),
		instead("embedded: says that a commit is on the disk before it is", "internal/store/embedded.database.commit", "f.sync()", "errors.Join(f.confirm(), f.sync())", in("TestACommitIsConfirmedByTheDisk")),
		instead("embedded: a commit that fails is tried again", "internal/store/embedded.database.commit", "nil {\n\t\treturn d.fail(err)\n\t}\n\td", "nil {\n\t\treturn err\n\t}\n\td", in("TestADiskThatIsFullAtTheSync")),
		instead("embedded: who fails leaves something behind", "internal/store/embedded.database.transact", "t.rollback(before, frames)", "_ = frames", in("TestAPoisonedRequestFailsAlone")),
		without("embedded: what is live is not moved", "internal/store/embedded.txn.move", "err", in("TestWhatIsLiveIsMoved")),
		instead("embedded: messages are not moved", "internal/store/embedded.index.until", "x.messages[of]", "0", in("TestWhatIsLiveIsMoved")),
		instead("embedded: messages are not kept for as long as their head", "internal/store/embedded.txn.move", "messageRow", "0", in("TestExpiredConversationsLeaveTheFile")),
		always("embedded: messages are over before their head", "internal/store/embedded.txn.get", "messageRow", in("TestAMessageIsThereForAsLongAsItsHead")),
		instead("embedded: what was changed is moved over it", "internal/store/embedded.txn.move", "newer || t", "newer && f.size == 0 || t", in("TestARowIsChangedAsItIsMoved")),
		instead("embedded: what has expired stays in the index", "internal/store/embedded.txn.move", "c.gone = true", "return true, nil", in("TestExpiredRecordsLeaveTheFile")),
		instead("embedded: half a commit is corrupt", "internal/store/embedded.database.load", "!= f.durable", ">= 0", in("TestALossOfPowerLeavesAWholeCommitOrNone")),
		instead("embedded: the head that is in force is written over", "internal/store/embedded.database.load", "head, f.slot = other, 1-f.slot", "head = other", in("TestALossOfPowerLeavesAWholeCommitOrNone")),
		instead("embedded: a frame passes for one of another place", "internal/store/embedded.checksum", "^byte(at>>shift)", "", in("FuzzFrame")),
		instead("embedded: segments are free before they are", "internal/store/embedded.file.follow", "(part+1)", "part", in("TestWhatIsLiveIsMoved")),
		instead("embedded: nothing is kept for what ends", "internal/store/embedded.database.transact", "d.file.reserve()", "0", in("TestWhatDoesNotFitTakesNobodyWithIt")),
		instead("embedded: half a commit passes for a whole one", "internal/store/embedded.database.load", "!= f.sum", "< 0", in("TestTwoCommitsThatCameToNoEndAreNone")),
		without("embedded: what came to no end is not free", "internal/store/embedded.database.load", "readSegments", in("TestSegmentsOfACommitThatCameToNoEndAreFree")),
		instead("embedded: what a killed process has written is not synced", "internal/store/embedded.database.load", "f.sync()", "nil", in("TestWhatAKilledProcessHasWrittenIsSynced")),
		instead("embedded: a large row is in the way", "internal/store/embedded.database.transact", "+partsOf(t.largest)", "", in("TestALargeRecordIsMovedInAFullFile")),
		instead("embedded: does not look where its file is", "internal/store/embedded.osFile.inPlace", "d.info", "info", fileGone),
		instead("embedded: does not look at what its file says", "internal/store/embedded.file.untouched", "nil || f.scratch", "nil && f.scratch", fileGone),
	}
}
