//go:build !unix

package process

import (
	"errors"
	"os/exec"
)

// lead refuses another user, and does nothing else: there are no process groups
// here, and a program that starts others has to end them itself.
func lead(_ *exec.Cmd, user *User) error {
	if user != nil {
		return errors.New("a program cannot be run as another user here")
	}
	return nil
}

// Terminate ends the process; there is no gentler way here.
func Terminate(cmd *exec.Cmd) { Kill(cmd) }

// Kill ends the process. The command must have been started.
func Kill(cmd *exec.Cmd) {
	// The only error is that it has ended already.
	_ = cmd.Process.Kill()
}

// Signalled reports false: processes are not ended by signals here.
func Signalled(*exec.Cmd) (name string, ok bool) { return "", false }
