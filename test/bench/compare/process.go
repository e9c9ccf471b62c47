package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sidecall/sidecall/test/bench/profiled"
)

// process is a server under measurement.
type process struct {
	name string
	cmd  *exec.Cmd
	addr string
}

// start runs a command and waits until ready reports that it serves. A profile of it goes to a path.
func start(ctx context.Context, name, profile string, ready func() bool, argv ...string) (*process, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stderr, cmd.Env = os.Stderr, append(os.Environ(), profiled.To+"="+profile)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getenv("BENCH_VERBOSE") == "" {
		cmd.Stderr = nil
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for !ready() {
		if time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("%s did not become ready in 20s", name), cmd.Process.Kill())
		}
		time.Sleep(20 * time.Millisecond)
	}
	return &process{name: name, cmd: cmd}, nil
}

func (p *process) stop() {
	if p == nil || p.cmd.Process == nil {
		return
	}
	// The process may have ended by itself; either way it is gone after Wait.
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// cpu is the processor time that the process has used so far.
func (p *process) cpu() (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The name, in brackets, may hold blanks; utime and stime are fields 14, 15.
	_, rest, ok := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: unreadable", p.cmd.Process.Pid)
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	const tick = time.Second / 100 // USER_HZ, fixed in the kernel's interface
	return time.Duration(user+system) * tick, errors.Join(err1, err2)
}

// rss is the resident memory of the process in MiB.
func (p *process) rss() float64 {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	defer file.Close() //nolint:errcheck // read only
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			if err != nil {
				return 0
			}
			return kib / 1024
		}
	}
	return 0
}

// freePorts returns loopback addresses that nothing listens on now, each another.
func freePorts(n int) (addrs []string, err error) {
	listeners := make([]net.Listener, n)
	for i := range listeners {
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, err
		}
		addrs = append(addrs, listeners[i].Addr().String())
	}
	for _, l := range listeners { // once all are chosen
		err = errors.Join(err, l.Close())
	}
	return addrs, err
}

func listening(addr string) func() bool {
	return func() bool {
		conn, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}
}
