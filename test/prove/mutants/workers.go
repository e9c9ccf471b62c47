package mutants

// workers: a call is handed to one worker, and when that is lost, nobody pretends to
// know.
func workers() []Mutant {
	handedOn, farewell := test("./internal/backend/worker", "TestAQueueIsHandedOn"), test("./internal/backend/worker", "TestTheStreamEndsAfterTheGoodbye")
	return []Mutant{
		instead("worker: a call whose worker is lost counts as not run", "internal/backend/worker.lost", "Ambiguous", "NotExecuted", test("./internal/backend/worker", "TestAWorkerThatIsLost")),
		instead("worker: what was sent is handed on too", "internal/backend/worker.roster.handOn", "queued {", "queued || inv.state == sent {", handedOn),
		without("worker: a call is still queued while it is sent", "internal/backend/worker.session.next", "state", handedOn),
		never("worker: the right to send is not asked for", "internal/backend/worker.session.next", "withheld", test("./internal/backend/worker", "TestACallWhoseRightIsLost")),
		always("worker: a function's own word proves that it did nothing", "internal/backend/worker.failed", "GetNotRun", test("./internal/backend/worker", "TestWhatAWorkerSaysOfAFailure")),
		instead("worker: a cancelled call without an answer counts as not run", "internal/backend/worker.Backend.giveUp", "Ambiguous", "NotExecuted", test("./internal/backend/worker", "TestAFunctionThatDoesNotEndKeepsItsPlace")),
		instead("worker: silence says nothing", "internal/backend/worker.session.watch", "max(silent, stuck)", "stuck", test("./internal/backend/worker", "TestASilentWorker")),
		instead("worker: a stream ends before what was said is sent", "internal/backend/worker.Backend.Serve", "err = s.farewell()", "_ = s.farewell", farewell),
		always("worker: what was said before the end is not sent", "internal/backend/worker.session.next", "inv != nil", farewell),
		never("worker: a call is sent after the end", "internal/backend/worker.session.next", "inv != nil", test("./internal/backend/worker", "TestWhatIsSentAfterTheEnd")),
	}
}
