// Package exectool is the exec backend: a tool is a command on this machine.
//
// The arguments of the call arrive as one JSON object on the command's standard
// input; they never become part of its command line, so no argument can be
// taken for an option or a second command. There is no shell. The environment
// holds what the config lists and nothing else. What the command prints is the
// result; its exit code says whether it failed.
//
// What a failure proves:
//
//	could not be started              not executed
//	exit code other than 0            definite, unless Command.ExitCodes says more
//	ended by a signal, ours or other  ambiguous
//
// A command that is cut off is ended as a group: SIGTERM, a short grace,
// SIGKILL. Whatever it left running in its group when it ended is killed too, and
// what has left the group where a way is kept to find it (process.KeepHouse).
package exectool

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/process"
	"github.com/sidecall/sidecall/internal/tool"
)

// Backend runs commands. It implements backend.Backend.
type Backend struct {
	name  string
	grace time.Duration
	tools map[string]command

	// running are the commands that have not ended.
	running backend.Running
	// stop ends every running command.
	stop    context.Context
	stopAll context.CancelFunc
}

type command struct {
	spec  process.Spec
	exits map[int]Exit
}

var _ backend.Backend = (*Backend)(nil)

// New checks the commands. It starts none, and a program that is missing is no
// error here: its calls fail by themselves until somebody installs it.
func New(cfg Config) (*Backend, error) {
	b := &Backend{name: cfg.Name, grace: cmp.Or(cfg.Grace, defaultGrace), tools: make(map[string]command, len(cfg.Tools))}
	for _, name := range slices.Sorted(maps.Keys(cfg.Tools)) { // of several mistakes always the same
		c := cfg.Tools[name]
		spec := process.Spec{Argv: c.Argv, Dir: cfg.Dir, Env: cfg.Env, User: cfg.User}
		if err := spec.Validate(); err != nil {
			return nil, fmt.Errorf("backend %s: tool %s: %w", cfg.Name, name, err)
		}
		b.tools[name] = command{spec: spec, exits: c.ExitCodes}
	}
	b.stop, b.stopAll = context.WithCancel(context.Background())
	return b, nil
}

// Close ends the commands that still run and waits for them.
func (b *Backend) Close(ctx context.Context) error {
	b.running.Shut()
	b.stopAll()
	return b.running.Ended(ctx, b.name)
}

// Invoke runs the command of call.Tool once.
//
// Output beyond MaxBytes is read and thrown away, so that the command comes to
// its end; the command of a read-only tool is ended there instead, because
// nothing can be left half done.
func (b *Backend) Invoke(ctx context.Context, call backend.Invocation) (tool.Reply, *tool.Failure) {
	c, ok := b.tools[call.Tool]
	if !ok {
		return tool.Reply{}, notStarted(tool.CodeInternal, "no_command", fmt.Errorf("backend %s has no command for tool %s", b.name, call.Tool))
	}
	if err := ctx.Err(); err != nil {
		return tool.Reply{}, cutOff(ctx, tool.NotExecuted)
	}
	if !b.running.Enter() {
		return tool.Reply{}, notStarted(tool.CodeDependencyUnavailable, "closed", fmt.Errorf("backend %s is closed", b.name))
	}
	r, failure := b.start(c, call)
	if failure != nil {
		b.running.Done()
		return tool.Reply{}, failure
	}
	go func() {
		defer b.running.Done()
		r.wait()
	}()
	cut := context.AfterFunc(ctx, r.end)
	closing := context.AfterFunc(b.stop, r.end)
	defer cut()
	defer closing()

	select {
	case <-r.done:
	case <-ctx.Done():
		if !r.endedWithin(endWait) {
			return tool.Reply{Text: r.stdout.snapshot()}, cutOff(ctx, tool.Ambiguous)
		}
	}
	return r.result(ctx, &call, c.exits)
}

// start starts the command, or says why it did not start: whatever the reason,
// the program then never ran.
func (b *Backend) start(c command, call backend.Invocation) (*run, *tool.Failure) {
	cmd, err := c.spec.Prepare()
	if err != nil {
		return nil, spawnFailure(err)
	}
	r := &run{cmd: cmd, grace: b.grace, stderr: process.NewTail(maxStderr), asked: make(chan struct{}), done: make(chan struct{})}
	r.end = sync.OnceFunc(func() { close(r.asked) })
	r.stdout.limit, r.stdout.memory = call.MaxBytes, call.Memory
	if r.stdout.limit <= 0 {
		r.stdout.limit = defaultMaxBytes
	}
	if call.Effect == tool.ReadOnly {
		r.stdout.full = r.end
	}
	if call.Effect == tool.Keyed && call.IdempotencyKey != "" {
		cmd.Env = append(cmd.Env, KeyVariable+"="+call.IdempotencyKey)
	}
	cmd.Stdin = bytes.NewReader(call.Args)
	cmd.Stdout = &r.stdout
	cmd.Stderr = r.stderr
	cmd.WaitDelay = pipeDelay
	// A command may act before it reads its input, so its start is where it leaves.
	var withheld *tool.Failure
	err = process.Start(cmd, func() bool {
		withheld = call.Withheld()
		return withheld == nil
	})
	switch {
	case withheld != nil:
		return nil, withheld
	case err != nil:
		return nil, spawnFailure(err)
	}
	return r, nil
}
