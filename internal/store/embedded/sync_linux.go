package embedded

import "syscall"

// Sync implements medium: what of the file's times is not needed to read it may come later.
func (d osFile) Sync() error {
	for {
		if err := syscall.Fdatasync(int(d.Fd())); err != syscall.EINTR {
			return err
		}
	}
}
