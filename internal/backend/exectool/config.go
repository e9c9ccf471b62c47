package exectool

import (
	"time"

	"github.com/sidecall/sidecall/internal/backend/process"
	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// defaultGrace is how long a command may take to end after SIGTERM.
	defaultGrace = 2 * time.Second
	// pipeDelay is how long output is still read after the command has ended
	// when something that it started holds the pipe open.
	pipeDelay = 500 * time.Millisecond
	// endWait is how long an invocation whose context has ended waits for its
	// command to end. Most end at once on SIGTERM, and then a next attempt
	// never overlaps with them; the others are left to the grace.
	endWait = 100 * time.Millisecond
	// defaultMaxBytes bounds the output of an invocation that sets no bound.
	defaultMaxBytes = 10 << 20
	// maxStderr is how much of the end of standard error a failure shows, in bytes. A model is shown no more than 400
	// characters of it, from the first on, and why a command failed is what it says last.
	maxStderr = 390
	// KeyVariable is the environment variable that carries the idempotency key
	// to the command of a keyed tool.
	KeyVariable = "SIDECALL_IDEMPOTENCY_KEY"
)

// Config is the exec backend of a config file, with its tools.
type Config struct {
	// Name of the backend, for errors.
	Name string
	// Dir is the working directory of every command; empty means Sidecall's.
	Dir string
	// Env is the whole environment of every command, as NAME=VALUE.
	Env []string
	// User is whom every command runs as; nil means Sidecall's own user.
	User *process.User
	// Grace is the time between SIGTERM and SIGKILL; 0 means 2 s.
	Grace time.Duration
	// Tools are the commands by registered tool name.
	Tools map[string]Command
}

// Command is what a call of one tool runs.
type Command struct {
	// Argv is the program and its fixed arguments.
	Argv []string
	// ExitCodes says what exit codes other than 0 mean. One that is not
	// listed is UNRECOVERABLE, and as good as the command's word
	// (backend.Invocation.OwnWord).
	ExitCodes map[int]Exit
}

// Exit is the meaning of an exit code.
type Exit struct {
	// Success makes it no failure at all, as grep's 1 for "nothing found".
	// The other fields then mean nothing.
	Success bool
	// Code of the failure; empty means UNRECOVERABLE.
	Code tool.Code
	// Hint says what to do next; empty means the code's own.
	Hint string
	// AllowedAlternatives names tools that may be called instead.
	AllowedAlternatives []string
	// NotExecuted is the operator's word that the command did nothing before
	// it ended with this code, as EX_TEMPFAIL (75) often means.
	NotExecuted bool
}
