package mutants

// The files of the worker backend.
const (
	workerRoster   = "internal/backend/worker/roster.go"
	workerRegister = "internal/backend/worker/register.go"
	workerFailure  = "internal/backend/worker/failure.go"
	workerResult   = "internal/backend/worker/result.go"
	workerWriter   = "internal/backend/worker/writer.go"
	workerInvoke   = "internal/backend/worker/invoke.go"
	workerSession  = "internal/backend/worker/session.go"
)

// workers: a call is handed to one worker, and when that is lost, nobody pretends to
// know.
func workers() []Mutant {
	handedOn, farewell := test("./internal/backend/worker", "TestAQueueIsHandedOn"), test("./internal/backend/worker", "TestTheStreamEndsAfterTheGoodbye")
	return []Mutant{
		one("worker: a call whose worker is lost counts as not run", workerFailure,
			"Evidence: tool.Ambiguous, ErrorType: \"worker_lost\"", "Evidence: tool.NotExecuted, ErrorType: \"worker_lost\"", test("./internal/backend/worker", "TestAWorkerThatIsLost")),
		one("worker: what was sent is handed on too", workerRoster,
			"if inv.state == queued {", "if inv.state == queued || inv.state == sent {", handedOn),
		one("worker: a call is still queued while it is sent", workerWriter, "inv.state = sent\n", "\n", handedOn),
		one("worker: the right to send is not asked for", workerWriter,
			"withheld != nil {", "withheld != nil && false {", test("./internal/backend/worker", "TestACallWhoseRightIsLost")),
		one("worker: a function's own word proves that it did nothing", workerResult,
			"if r.GetNotRun() {\n", "if true {\n", test("./internal/backend/worker", "TestWhatAWorkerSaysOfAFailure")),
		one("worker: a cancelled call without an answer counts as not run", workerInvoke,
			"Tool: inv.call.Tool}, nil\n\treturn tool.Reply{}, ended(ctx, tool.Ambiguous)", "Tool: inv.call.Tool}, nil\n\treturn tool.Reply{}, ended(ctx, tool.NotExecuted)", test("./internal/backend/worker", "TestAFunctionThatDoesNotEndKeepsItsPlace")),
		one("worker: silence says nothing", workerSession, "max(silent, stuck) >= missedHeartbeats", "stuck >= missedHeartbeats", test("./internal/backend/worker", "TestASilentWorker")),
		one("worker: a stream ends before what was said is sent", workerRegister, "err = s.farewell()", "_ = s.farewell", farewell),
		one("worker: what was said before the end is not sent", workerWriter, "if s.why != nil || inv != nil {", "if true {", farewell),
		one("worker: a call is sent after the end", workerWriter, "if s.why != nil || inv != nil {", "if s.why != nil {", test("./internal/backend/worker", "TestWhatIsSentAfterTheEnd")),
	}
}
