package exectool

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"sync"
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

	// done is closed when the command has ended; err is then set.
	done chan struct{}
	err  error

	mu    sync.Mutex
	cut   bool // end was called while the command ran
	ended bool
	kill  *time.Timer
}

// wait waits for the command and ends what it left behind.
func (r *run) wait() {
	err := r.cmd.Wait()
	r.mu.Lock()
	r.ended = true
	if r.kill != nil {
		r.kill.Stop()
	}
	// At once: while anybody is left the number of the group is taken.
	process.Kill(r.cmd)
	r.mu.Unlock()
	r.err = err
	close(r.done)
	process.End(r.cmd) // nobody waits for that but Close
}

// end asks the command to end and makes it end after the grace.
func (r *run) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.cut {
		return
	}
	r.cut = true
	process.Terminate(r.cmd)
	r.kill = time.AfterFunc(r.grace, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.ended {
			process.Kill(r.cmd)
		}
	})
}

func (r *run) wasCut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cut
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
	wasCut := r.wasCut()
	stopped := wasCut && reply.Cut && r.stdout.full != nil && ctx.Err() == nil

	switch signal, signalled := process.Signalled(r.cmd); {
	case stopped:
		// A read-only command that we ended because it had said enough.
		reply.Status = 0
		return reply, nil
	case state.Success():
		if r.err != nil && !errors.Is(r.err, exec.ErrWaitDelay) {
			return reply, unreadable(r.err)
		}
		return reply, nil
	case wasCut && ctx.Err() != nil:
		return reply, cutOff(ctx, tool.Ambiguous)
	case wasCut:
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
