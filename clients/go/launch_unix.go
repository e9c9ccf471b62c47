//go:build unix

package sidecall

import (
	"os/exec"
	"syscall"
)

// apart has a process be of a session of its own: Ctrl-C is for this one, which then ends it.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
