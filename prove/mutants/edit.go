package mutants

// The files that the mutants change.
const (
	stateMachine = "dedupe/state.go"
	memoryRows   = "dedupe/memory/rows.go"
	memoryShelf  = "dedupe/memory/shelf.go"
	embeddedRows = "dedupe/embedded/rows.go"
	transaction  = "dedupe/embedded/txn.go"
	database     = "dedupe/embedded/database.go"
	storeFile    = "dedupe/embedded/file.go"
	reopen       = "dedupe/embedded/open.go"
	tallies      = "dedupe/tally.go"
	claim        = "dedupe/claim.go"
	incarnation  = "dedupe/incarnation.go"
	tenure       = "dedupe/tenure.go"
	fence        = "dedupe/fence.go"
	dedupeFile   = "dedupe/dedupe.go"
	ticket       = "dedupe/ticket.go"
	callTries    = "call/tries.go"
	callAttempt  = "call/attempt.go"
	callSettle   = "call/settle.go"
	callRun      = "call/run.go"
	callClaim    = "call/claim.go"
	httpRequest  = "backend/httptool/request.go"
	httpRedirect = "backend/httptool/redirect.go"
)

// one is a mutant of one edit.
func one(name, file, before, after string, by Suite) Mutant {
	return Mutant{Name: name, Edits: []Edit{{file, before, after}}, Suite: by}
}

func short(m Mutant) Mutant {
	m.Short = true
	return m
}
