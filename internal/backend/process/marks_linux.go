package process

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// marks tell whose an orphan is, where it cannot be in a cgroup of its own.
//
// The kernel gives a process whose parents have died to the nearest ancestor that
// asked for it (PR_SET_CHILD_SUBREAPER), and does not say whose it was. So every
// command is started under a mark, which all that it starts inherits, whatever it
// does to its session, its group and its parents: the soft limit of the resident
// set (RLIMIT_RSS), which Linux has not enforced since 2.4.30. A process that
// changes that limit by itself is not found.
type marks struct {
	next uint64
	own  unix.Rlimit // the limit as it was found
}

// markSpan is how many marks a process has before they begin anew.
const markSpan = 1 << 20

func newMarks() (*marks, error) {
	m := &marks{}
	if err := unix.Prlimit(0, unix.RLIMIT_RSS, nil, &m.own); err != nil {
		return nil, fmt.Errorf("reading RLIMIT_RSS: %w", err)
	}
	top := min(m.own.Max, 1<<62)
	if top < 1<<61 {
		return nil, errors.New("RLIMIT_RSS, the mark of commands, is in use")
	}
	// At random, so that a sidecar below another has other marks.
	m.next = top - (rand.Uint64N(1<<40)+1)*markSpan
	return m, nil
}

// expect sets the next mark for a command that is started next: the limit is this
// process's own while it forks, until started, since a child that is marked later may
// have children by then.
func (m *marks) expect() (mark uint64, started func(error), err error) {
	mark = m.next
	m.next++
	set := unix.Rlimit{Cur: mark, Max: m.own.Max}
	if err := unix.Prlimit(0, unix.RLIMIT_RSS, &set, nil); err != nil {
		return 0, nil, fmt.Errorf("marking the command: %w", err)
	}
	return mark, func(error) {
		_ = unix.Prlimit(0, unix.RLIMIT_RSS, &m.own, nil) // as it was, so it may be so again
	}, nil
}

// markOf is the mark that a process has inherited.
func markOf(pid int) (mark uint64, ok bool) {
	limits, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
	if err != nil {
		return 0, false
	}
	_, rest, found := bytes.Cut(limits, []byte("Max resident set"))
	fields := bytes.Fields(rest)
	if !found || len(fields) == 0 {
		return 0, false
	}
	mark, err = strconv.ParseUint(string(fields[0]), 10, 64)
	return mark, err == nil
}
