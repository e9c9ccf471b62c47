//go:build !linux

package process

import (
	"errors"
	"os/exec"
)

// KeepHouse reports that there is no way here: a command that leaves its group
// outlives it.
func KeepHouse() (way string, release func(), err error) {
	return "", nil, errors.New("only Linux has a way to find what a command has started")
}

// Start starts a command of Prepare, if may, where it is not nil, says so. It is waited for with
// Wait, and then ended with End.
func Start(cmd *exec.Cmd, may func() bool) error {
	if err := allowed(may); err != nil {
		return err
	}
	return cmd.Start()
}

// End does nothing here: what is left of the group was killed.
func End(*exec.Cmd) {}
