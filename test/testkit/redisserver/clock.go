package redisserver

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

//go:embed testdata/clock.c
var clockSource string

// clock is the wall clock of a server, apart from the machine's.
type clock struct {
	library string
	file    *os.File // how many seconds it is ahead, as the server's processor writes numbers
	ahead   time.Duration
}

// newClock makes a clock, which takes a C compiler; the test is skipped where there
// is none.
func newClock(tb testing.TB) *clock {
	tb.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		tb.Skipf("the clock of a server is moved by a library that a C compiler makes, and there is none: %v", err)
	}
	dir := tb.TempDir()
	c := &clock{library: filepath.Join(dir, "clock.so")}
	cmd := exec.CommandContext(tb.Context(), compiler, "-shared", "-fPIC", "-O1", "-x", "c", "-o", c.library, "-")
	cmd.Stdin = strings.NewReader(clockSource)
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%s: %v\n%s", compiler, err, out)
	}
	if c.file, err = os.Create(filepath.Join(dir, "ahead")); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.file.Close(); err != nil {
			tb.Error(err)
		}
	})
	c.write(tb)
	return c
}

// env is what the server is started with; nil for one with the machine's clock.
func (c *clock) env() []string {
	if c == nil {
		return nil
	}
	return append(os.Environ(), "LD_PRELOAD="+c.library, "SIDECALL_TEST_CLOCK="+c.file.Name())
}

func (c *clock) write(tb testing.TB) {
	tb.Helper()
	if _, err := c.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(c.ahead/time.Second)), 0); err != nil {
		tb.Fatal(err)
	}
}
