package process

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sweep waits for orphans that have ended by themselves, until stop is closed.
func (h *commands) sweep(stop <-chan struct{}) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	defer signal.Stop(died)
	for {
		select {
		case <-died:
		case <-stop:
			return
		}
		h.reap()
		select {
		case <-time.After(sweepPause):
		case <-stop:
			return
		}
	}
}

// reap waits for the orphans that have ended, each by its number: any other way
// of waiting would take the ends of commands from those who wait for them.
func (h *commands) reap() {
	h.reaping.Lock()
	defer h.reaping.Unlock()
	for _, pid := range h.orphans() {
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // one that has not ended is left alone
	}
}

// orphans are the children of this process that are no commands. Nothing is being
// started meanwhile, so that every command is known.
func (h *commands) orphans() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, err := children()
	if err != nil {
		return nil // it could be read at the start
	}
	var found []int
	for _, pid := range all {
		if h.leaders[pid] == nil {
			found = append(found, pid)
		}
	}
	return found
}

// reaped waits for a child that was killed; false when it takes too long.
func reaped(pid int) bool {
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for until := time.Now().Add(endPatience); ; {
			_, err := unix.Poll(poll, int(max(0, time.Until(until).Milliseconds())))
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		_ = unix.Close(fd) // only waited on
	}
	got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
	return err == nil && got == pid
}

// children are the processes whose parent is this one. The list that the kernel
// keeps by itself (/proc/PID/task/TID/children) is not in every kernel.
func children() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	if err := errors.Join(err, dir.Close()); err != nil {
		return nil, err
	}
	own := []byte(strconv.Itoa(os.Getpid()))
	var found []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has ended meanwhile
		}
		// The name of the program may hold anything, also ") R 1": what follows
		// the last parenthesis is state and parent.
		_, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
		if fields := bytes.Fields(rest); len(fields) > 1 && bytes.Equal(fields[1], own) {
			found = append(found, pid)
		}
	}
	return found, nil
}
