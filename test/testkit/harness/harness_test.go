//go:build e2e

package harness

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// bare is a config that needs nobody else.
const bare = "backends: {}\n"

// watched is a test that notes that it failed, and with which words, instead of
// failing.
type watched struct {
	testing.TB
	said string
}

func (w *watched) Fatalf(format string, args ...any) {
	w.said = fmt.Sprintf(format, args...)
}

func (w *watched) Errorf(format string, args ...any) { w.Fatalf(format, args...) }

// A process that ended by itself was not killed, and what it wrote at last is
// told.
func TestKillOfAProcessThatEndedByItself(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal os.Signal // ends the process before Kill; nil for none
		says   []string  // empty: nothing is wrong
	}{
		"killed":         {},
		"stopped before": {signal: syscall.SIGTERM, says: []string{"exit code 0"}},
		// As every fatal error of the Go runtime ends it.
		"crashed before": {signal: syscall.SIGQUIT, says: []string{"exit code 2", "SIGQUIT", "goroutine "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &watched{TB: t}
			s := Start(t, bare)
			if c.signal != nil {
				s.Signal(c.signal)
				<-s.exited
			}
			s.t = w
			s.Kill()
			s.t = t
			if len(c.says) == 0 && w.said != "" {
				t.Errorf("it was killed, and the test fails: %s", w.said)
			}
			for _, words := range c.says {
				if !strings.Contains(w.said, words) {
					t.Errorf("it ended by itself, and the test says %q, without %q", w.said, words)
				}
			}
		})
	}
}
