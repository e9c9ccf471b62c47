package process

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// Conceal keeps what this process has from the programs that it starts, and from
// whoever else runs as the same user: its environment, memory and open files are
// not theirs to read below /proc, nor by ptrace, and what it has itself inherited
// open is not passed on. A program that is started is readable again. Root may
// read all the same. It costs core dumps, and debuggers that do not run as root.
func Conceal() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hiding from other processes: %w", err)
	}
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keeping open files from commands (Linux 5.11): %w", err)
	}
	return nil
}
