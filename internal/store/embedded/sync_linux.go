package embedded

import (
	"os"
	"syscall"
)

// syncData waits until what was written is on the disk; what of the file's times is not
// needed to read it may come later.
func syncData(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return err
		}
	}
}
