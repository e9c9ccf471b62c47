package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// commands are the commands of this process, and what ends the rest of each.
type commands struct {
	// cells are the cgroups of the commands; nil where none can be made. Then
	// marks tell whose an orphan is.
	cells *cells
	marks *marks

	// reaping is held from when orphans are listed until they are waited for:
	// meanwhile none of their numbers is given to another process.
	reaping sync.Mutex

	mu      sync.Mutex
	members map[*exec.Cmd]member // started, and not ended
	leaders map[int]*exec.Cmd    // the same by pid
}

// member is what is known of a command: one of these.
type member struct {
	cell *cell
	mark uint64
}

const (
	// sweepPause is how long orphans that have ended by themselves may wait to be
	// waited for, so that a tool that makes many of them costs little.
	sweepPause = time.Second
	// generations bounds how often orphans of killed orphans are looked for.
	generations = 1000
)

// ours are the commands of this process; nil before they are kept.
var ours atomic.Pointer[commands]

// KeepHouse makes End end all that a command has started, also what has left its
// group (setsid) and lost its parents: by a cgroup for each command where this
// process can make one, else as the parent that orphans are given to. It says
// which. All children of this process have then to be started with Start. release
// ends it, and is called when no command runs any more.
func KeepHouse() (way string, release func(), err error) {
	release, noCells := keepCells()
	if noCells == nil {
		return "cgroup", release, nil
	}
	release, err = keepOrphans()
	if err != nil {
		return "", nil, errors.Join(err, noCells)
	}
	return "subreaper", release, nil
}

func keepCells() (release func(), err error) {
	made, err := newCells()
	if err != nil {
		return nil, err
	}
	return keep(&commands{cells: made}, os.Getpid() == 1, made.close), nil
}

func keepOrphans() (release func(), err error) {
	made, err := newMarks()
	if err != nil {
		return nil, err
	}
	if err := adopt(1); err != nil {
		return nil, err
	}
	return keep(&commands{marks: made}, true, func() { _ = adopt(0) }), nil
}

// adopt says whether orphans below this process are given to it.
func adopt(yes uintptr) error {
	if _, err := children(); err != nil {
		return fmt.Errorf("listing the processes: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, yes, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming the parent of orphans: %w", err)
	}
	return nil
}

// keep makes commands those of this process. orphaned: orphans are given to it,
// and have to be waited for, as also the first process of a container has to.
func keep(h *commands, orphaned bool, closing func()) (release func()) {
	h.members, h.leaders = make(map[*exec.Cmd]member), make(map[int]*exec.Cmd)
	ours.Store(h)
	stop, swept := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(swept)
		if orphaned {
			h.sweep(stop)
		}
	}()
	return func() {
		close(stop)
		<-swept
		ours.Store(nil)
		closing()
	}
}

// Start starts a command of Prepare, in a cell or under a mark where somebody keeps
// house. It is waited for with Wait, and then ended with End. may, if not nil, is asked when
// nothing is waited for any more: false keeps the command from being started.
func Start(cmd *exec.Cmd, may func() bool) error {
	h := ours.Load()
	if h == nil {
		if err := allowed(may); err != nil {
			return err
		}
		return cmd.Start()
	}
	h.mu.Lock() // nobody looks for orphans before the command is known
	defer h.mu.Unlock()
	m, started, err := h.expect(cmd)
	if err != nil {
		return err
	}
	if err = allowed(may); err == nil {
		err = cmd.Start()
	}
	if started(err); err != nil {
		return err
	}
	h.members[cmd], h.leaders[cmd.Process.Pid] = m, cmd
	return nil
}

// End ends what a command that was waited for has left behind, as far as somebody
// keeps house.
func End(cmd *exec.Cmd) {
	if h := ours.Load(); h != nil {
		h.end(cmd)
	}
}

// expect prepares for a command that is started next; started hears how that went.
func (h *commands) expect(cmd *exec.Cmd) (m member, started func(error), err error) {
	if h.cells != nil {
		m.cell, started, err = h.cells.expect(cmd)
	} else {
		m.mark, started, err = h.marks.expect()
	}
	return m, started, err
}

// end kills what is left of a command, and waits for it.
func (h *commands) end(cmd *exec.Cmd) {
	h.mu.Lock()
	m, started := h.members[cmd]
	delete(h.members, cmd)
	if h.leaders[cmd.Process.Pid] == cmd {
		delete(h.leaders, cmd.Process.Pid)
	}
	h.mu.Unlock()
	switch {
	case !started:
	case m.cell != nil:
		m.cell.end()
	default:
		h.endMarked(m.mark)
	}
}

// endMarked kills the orphans with a mark. What they have started is given to this
// process when they die, and found in the next turn.
func (h *commands) endMarked(mark uint64) {
	h.reaping.Lock()
	defer h.reaping.Unlock()
	for range generations {
		left := false
		for _, pid := range h.orphans() {
			if of, ok := markOf(pid); ok && of == mark && unix.Kill(pid, unix.SIGKILL) == nil {
				left = reaped(pid) || left
			}
		}
		if !left {
			return
		}
	}
}
