package mutants

// The files that the mutants change.
const (
	stateMachine = "dedupe/state.go"
	embeddedRows = "internal/store/embedded/rows.go"
	transaction  = "internal/store/embedded/txn.go"
	database     = "internal/store/embedded/database.go"
	storeFile    = "internal/store/embedded/file.go"
	reopen       = "internal/store/embedded/open.go"
	tallies      = "dedupe/tally.go"
	claim        = "dedupe/claim.go"
	incarnation  = "dedupe/fence.go"
	tenure       = "dedupe/tenure.go"
	fence        = "dedupe/fence.go"
	dedupeFile   = "dedupe/dedupe.go"
	ticket       = "dedupe/ticket.go"
	callTries    = "internal/call/tries.go"
	callAttempt  = "internal/call/attempt.go"
	callSettle   = "internal/call/settle.go"
	callRun      = "internal/call/run.go"
	callClaim    = "internal/call/claim.go"
	httpRequest  = "internal/backend/httptool/request.go"
	httpRedirect = "internal/backend/httptool/redirect.go"
)

// one is a mutant of one edit.
func one(name, file, before, after string, by Suite) Mutant {
	return Mutant{Name: name, Edits: []Edit{{file, before, after}}, Suite: by}
}

func short(m Mutant) Mutant {
	m.Short = true
	return m
}
