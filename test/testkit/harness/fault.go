package harness

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Fail sets the fault, in the words of package failpoint, that the next lives
// of the process suffer; empty for none. A process without a fault is of the
// plain build.
func (s *Sidecar) Fail(fault string) { s.fault = fault }

// AwaitDeath waits for the process to end and returns the signal that ended it;
// an error when it ended otherwise, or did not end in time.
func (s *Sidecar) AwaitDeath() (syscall.Signal, error) {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(endTimeout):
		return 0, fmt.Errorf("the sidecar at %s did not end in %s", s.Addr, endTimeout)
	}
	state := s.cmd.ProcessState
	s.cmd = nil
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal(), nil
	}
	return 0, fmt.Errorf("the sidecar at %s ended with exit code %d", s.Addr, state.ExitCode())
}

// AwaitStopped waits until the process is stopped by a signal.
func (s *Sidecar) AwaitStopped() {
	s.t.Helper()
	stat := fmt.Sprintf("/proc/%d/stat", s.PID())
	WaitFor(s.t, "the process to stop", func() bool {
		text, err := os.ReadFile(stat)
		if err != nil {
			s.t.Fatal(err)
		}
		// "pid (name) state ..."; the name may hold anything.
		after := text[bytes.LastIndexByte(text, ')')+1:]
		return bytes.HasPrefix(after, []byte(" T "))
	})
}

// Try is Run for a process that may refuse to start: ready says that it takes
// calls; else it has ended, with an exit code.
func (s *Sidecar) Try() (ready bool, exitCode int) {
	s.t.Helper()
	s.launch()
	if s.answers() == nil {
		return true, 0
	}
	return false, s.Wait()
}
