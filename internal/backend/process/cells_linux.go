package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cells are cgroups (v2) below the one of this process, one for each command: what
// a command starts is born in its cell, and only who may write to the cgroups above
// can leave it.
type cells struct {
	dir  string // made with the first cell
	next int
}

// endPatience is how long one that was killed may take to end: in the middle of a read
// from a disk that stands still it cannot.
const endPatience = time.Second

// newCells finds out whether this process may make cells; the error says why not.
func newCells() (*cells, error) {
	own, err := ownCgroup()
	if err != nil {
		return nil, err
	}
	// To be born in a cell one needs to be let out of the cgroup around it.
	if err := unix.Access(filepath.Join(own, "cgroup.procs"), unix.W_OK); err != nil {
		return nil, fmt.Errorf("cgroup %s: %w", own, err)
	}
	c := &cells{dir: filepath.Join(own, "sidecall-"+strconv.Itoa(os.Getpid()))}
	if err := os.Mkdir(c.dir, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	defer c.close()
	if err := unix.Access(filepath.Join(c.dir, "cgroup.kill"), unix.W_OK); err != nil {
		return nil, fmt.Errorf("cgroup.kill (Linux 5.14): %w", err)
	}
	// A sandbox may refuse the system call (clone3) that starts a program in a
	// cell. One that there is not comes as far as that.
	probe := &exec.Cmd{Path: "/proc/self/no-such-program"}
	_, started, err := c.expect(probe)
	if err == nil {
		err = probe.Start()
		started(err)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("starting in a cgroup: %w", err)
	}
	return c, nil
}

// close removes the directory of the cells, once they are gone.
func (c *cells) close() {
	_ = unix.Rmdir(c.dir) // one that is in use, or was never made, is no harm
}

// cell is the cgroup of one command.
type cell struct{ dir string }

// expect makes a cell for a command that is started next, and is born in it; started
// hears how that went.
func (c *cells) expect(cmd *exec.Cmd) (made *cell, started func(error), err error) {
	if err := os.Mkdir(c.dir, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, nil, fmt.Errorf("cgroup: %w", err)
	}
	// One may be there: a process that was killed had the same number before.
	for err = os.ErrExist; errors.Is(err, os.ErrExist); c.next++ {
		made = &cell{dir: filepath.Join(c.dir, strconv.Itoa(c.next))}
		err = os.Mkdir(made.dir, 0o750)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cgroup: %w", err)
	}
	dir, err := os.Open(made.dir)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("cgroup: %w", err), unix.Rmdir(made.dir))
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	return made, func(err error) {
		_ = dir.Close() // only named, not read
		if err != nil {
			_ = unix.Rmdir(made.dir) // the reason why it did not start is what counts
		}
	}, nil
}

// end kills everybody in the cell at once, waits for their ends, and removes it.
func (c *cell) end() {
	if unix.Rmdir(c.dir) == nil {
		return // nobody was left
	}
	if os.WriteFile(filepath.Join(c.dir, "cgroup.kill"), []byte("1"), 0) == nil {
		c.emptied()
	}
	_ = unix.Rmdir(c.dir) // who cannot die (a disk that stands still) keeps it
}

// emptied waits until nobody lives in the cell, for endPatience at most.
func (c *cell) emptied() {
	events, err := os.Open(filepath.Join(c.dir, "cgroup.events"))
	if err != nil {
		return
	}
	defer func() { _ = events.Close() }() // only read
	poll := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}
	text := make([]byte, 256)
	for until := time.Now().Add(endPatience); ; {
		n, _ := events.ReadAt(text, 0) // what cannot be read does not say that nobody is left
		left := time.Until(until)
		if bytes.Contains(text[:n], []byte("populated 0")) || left <= 0 {
			return
		}
		// The change is told once per read; interrupted, it looks again.
		_, _ = unix.Poll(poll, int(left.Milliseconds())+1)
	}
}

// ownCgroup is the directory of the cgroup (v2) that this process is in.
func ownCgroup() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	path := ""
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "0::"); ok {
			path = strings.TrimSuffix(rest, "\n")
		}
	}
	if path == "" {
		return "", errors.New("this process is in no cgroup of version 2")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	return cgroupDir(string(mounts), path)
}

// cgroupDir finds the directory of a cgroup below one of the mounts (proc(5),
// mountinfo).
func cgroupDir(mounts, path string) (string, error) {
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		fields, of := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(of) == 0 || of[0] != "cgroup2" {
			continue
		}
		// A mount may show a part of the tree only.
		if below, err := filepath.Rel(fields[3], path); err == nil && filepath.IsLocal(below) {
			return filepath.Join(fields[4], below), nil
		}
	}
	return "", errors.New("no cgroup file system (version 2) shows the cgroup of this process")
}
