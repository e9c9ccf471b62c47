package process

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// mayChangeUser looks for the capabilities that root has: two to change user and
// groups, and one to end what then runs as somebody else.
func mayChangeUser() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("reading the capabilities: %w", err)
	}
	var missing []string
	for _, needed := range []struct {
		bit  int
		name string
	}{{unix.CAP_SETUID, "CAP_SETUID"}, {unix.CAP_SETGID, "CAP_SETGID"}, {unix.CAP_KILL, "CAP_KILL"}} {
		if sets[0].Effective&(1<<needed.bit) == 0 {
			missing = append(missing, needed.name)
		}
		// What is ambient would be the program's too, whoever it runs as.
		if set, err := unix.PrctlRetInt(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_IS_SET, uintptr(needed.bit), 0, 0); err == nil && set == 1 {
			return errors.New(needed.name + " is ambient, so that the command would have it too: give it to the file of sidecall (setcap), or run as root")
		}
	}
	if missing != nil {
		return errors.New("another user needs root or the capabilities CAP_SETUID, CAP_SETGID and CAP_KILL; missing: " + strings.Join(missing, ", "))
	}
	return nil
}
