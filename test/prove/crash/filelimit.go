//go:build prove

package crash

import (
	"testing"

	"golang.org/x/sys/unix"
)

// unlimited is no bound at all.
const unlimited = unix.RLIM_INFINITY

// setFileLimit bounds the size of the files that a process writes, in bytes;
// the bound can be lifted again.
func setFileLimit(t *testing.T, pid int, bytes uint64) {
	t.Helper()
	limit := unix.Rlimit{Cur: bytes, Max: unlimited}
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		t.Fatal(err)
	}
}
