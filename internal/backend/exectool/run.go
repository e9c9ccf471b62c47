package exectool

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/process"
	"github.com/sidecall/sidecall/internal/tool"
)

// run is one running command.
type run struct {
	cmd    *exec.Cmd
	grace  time.Duration
	stdout output
	stderr *process.Tail

	// end asks the command to end: it closes asked.
	end   func()
	asked chan struct{}
	// done is closed when the command has ended; the others are then set. cut: it was asked to
	// before.
	done chan struct{}
	err  error
	cut  bool
}

// wait waits for the command and ends what it left behind.
func (r *run) wait() {
	r.cut, r.err = process.Wait(r.cmd, r.asked, 0, r.grace)
	close(r.done)
	process.End(r.cmd) // nobody waits for that but Close
}

func (r *run) endedWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.done:
		return true
	case <-timer.C:
		return false
	}
}

// result reads a command that has ended.
func (r *run) result(ctx context.Context, call *backend.Invocation, exits map[int]Exit) (tool.Reply, *tool.Failure) {
	reply := r.stdout.reply()
	state := r.cmd.ProcessState
	reply.Status = max(state.ExitCode(), 0)
	stopped := reply.Cut && r.stdout.full != nil && ctx.Err() == nil

	switch signal, signalled := process.Signalled(r.cmd); {
	case stopped:
		// A read-only command that had said enough: whether we ended it, or it was faster.
		reply.Status = 0
		return reply, nil
	case state.Success():
		if r.err != nil && !errors.Is(r.err, exec.ErrWaitDelay) {
			return reply, unreadable(r.err)
		}
		return reply, nil
	case r.cut && ctx.Err() != nil:
		return reply, cutOff(ctx, tool.Ambiguous)
	case r.cut:
		return reply, shutDown()
	case signalled:
		return reply, endedBy(signal, r.stderr.String())
	default:
		return r.exited(call, reply, exits)
	}
}

// exited reads a command that ended by itself with a code other than 0.
func (r *run) exited(call *backend.Invocation, reply tool.Reply, exits map[int]Exit) (tool.Reply, *tool.Failure) {
	exit, listed := exits[reply.Status]
	if listed && exit.Success {
		return reply, nil
	}
	message := r.stderr.String()
	if len(bytes.TrimSpace([]byte(message))) == 0 {
		said := process.NewTail(maxStderr)
		_, _ = said.Write(reply.Text) // it never fails
		message = said.String()
	}
	return reply, exitFailure(call, reply.Status, exit, message)
}
