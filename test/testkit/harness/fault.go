package harness

import (
	"bytes"
	"fmt"
	"os"
)

// Fail sets the fault, in the words of package failpoint, that the next lives
// of the process suffer; empty for none. A process without a fault is of the
// plain build.
func (s *Sidecar) Fail(fault string) { s.fault = fault }

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
