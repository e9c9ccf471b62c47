package mutants

// The files of the mutants that replace a text of a file.
const (
	stateMachine = "dedupe/state.go"
	ticket       = "dedupe/ticket.go"
	callTries    = "internal/call/tries.go"
	callRun      = "internal/call/run.go"
)

// one is a mutant that replaces a text of a file: of what is no function, is no Go, or takes lines to say.
func one(name, file, before, after string, by Suite) Mutant {
	return Mutant{Name: name, Edits: []Edit{{In: file, Old: before, New: after}}, Suite: by}
}

// short is a mutant that is part of the short form: one of those that a suite catches, since one
// shows that it can fail. Each costs a build of all that is above what it changes.
func short(m Mutant) Mutant {
	m.Short = true
	return m
}
