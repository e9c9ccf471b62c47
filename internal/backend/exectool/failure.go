package exectool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// spawnFailure classifies why a program could not be started. A missing or
// forbidden program stays so until somebody acts; a machine that is out of
// processes, memory or files may have some later.
func spawnFailure(err error) *tool.Failure {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return notStarted(tool.CodeUnrecoverable, "not_found", err)
	case errors.Is(err, fs.ErrPermission):
		return notStarted(tool.CodeUnrecoverable, "permission_denied", err)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM),
		errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return notStarted(tool.CodeDependencyUnavailable, "no_resources", err)
	default:
		return notStarted(tool.CodeUnrecoverable, "spawn_failed", err)
	}
}

func notStarted(code tool.Code, errorType string, err error) *tool.Failure {
	return &tool.Failure{
		Code:       code,
		Evidence:   tool.NotExecuted,
		Constraint: "the command could not be started",
		ErrorType:  errorType,
		Err:        err,
	}
}

// cutOff is a command that the context of its invocation ended, or never let
// start.
func cutOff(ctx context.Context, evidence tool.Evidence) *tool.Failure {
	return backend.ContextEnded(ctx, evidence, "the command did not end in time")
}

func shutDown() *tool.Failure {
	return &tool.Failure{
		Code:        tool.CodeDependencyUnavailable,
		Evidence:    tool.Ambiguous,
		Constraint:  "the command was ended because Sidecall is shutting down",
		ErrorType:   "shutdown",
		CallerFault: true,
	}
}

func endedBy(signal, stderr string) *tool.Failure {
	return &tool.Failure{
		Code:       tool.CodeUnrecoverable,
		Evidence:   tool.Ambiguous,
		Message:    stderr,
		Constraint: fmt.Sprintf("the command was ended by a signal (%s)", signal),
		ErrorType:  "signal",
	}
}

func unreadable(err error) *tool.Failure {
	return &tool.Failure{
		Code:       tool.CodeInvalidOutput,
		Evidence:   tool.Definite,
		Constraint: "the command succeeded, but its output could not be read",
		ErrorType:  "invalid_output",
		Err:        err,
	}
}

// exitFailure is a command that ended by itself with a code other than 0. A code
// that the operator has given a meaning of the hard kind is what it says; any
// other is the command's own word.
func exitFailure(call *backend.Invocation, status int, exit Exit, message string) *tool.Failure {
	f := &tool.Failure{
		Code:                exit.Code,
		Evidence:            tool.Definite,
		Message:             message,
		Constraint:          fmt.Sprintf("the command exits with code %d", status),
		Hint:                exit.Hint,
		AllowedAlternatives: exit.AllowedAlternatives,
		Status:              status,
		ErrorType:           "exit_" + strconv.Itoa(status),
	}
	switch {
	case exit.NotExecuted:
		f.Evidence = tool.NotExecuted
	case exit.Code == "", exit.Code.Class() == tool.Transient:
		f = call.OwnWord(f)
	}
	if f.Code == "" {
		f.Code = tool.CodeUnrecoverable
	}
	// An answer, whatever it says, shows that the machine is well; only what
	// the operator calls transient counts against it.
	f.CallerFault = f.Code.Class() != tool.Transient
	return f
}
