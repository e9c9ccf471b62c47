// Package scratch has a directory for what a proof in the short form keeps on a
// disk only because its program does.
package scratch

import (
	"os"
	"syscall"
	"testing"

	"github.com/sidecall/sidecall/test/prove/proof"
)

const (
	// memory is a file system in memory, where there is one.
	memory = "/dev/shm"
	// room is how much it must have left to be used, in bytes: several times
	// what the stores of a short proof take.
	room = 256 << 20
)

// Dir returns a directory that is gone with the test. In the full form it is one
// of the test's own, on the disk. In the short form it is in memory where there
// is room: its leases and open times are a second or less, and a disk that
// others write to as well may be still for longer, which says nothing about
// what is proved. What a killed process has written is there in memory too.
func Dir(tb testing.TB) string {
	tb.Helper()
	var fs syscall.Statfs_t
	if proof.Full() || syscall.Statfs(memory, &fs) != nil || fs.Bavail < room/uint64(fs.Bsize) {
		return tb.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "sidecall-") //nolint:usetesting // TempDir is on the disk
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}
