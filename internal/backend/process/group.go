package process

import (
	"os/exec"
	"syscall"
)

// lead makes the command the leader of a new process group, and lets it run as
// user; nil stands for this process's own.
func lead(cmd *exec.Cmd, user *User) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if user != nil && !user.IsOwn() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user.UID, Gid: user.GID, Groups: user.Groups}
	}
}

// Terminate asks every process of the group to end (SIGTERM). The command must
// have been started.
func Terminate(cmd *exec.Cmd) { signalGroup(cmd, syscall.SIGTERM) }

// Kill ends every process of the group at once (SIGKILL). The command must have
// been started. It may be called after Wait, to end what the leader left
// behind, but then without delay: once the whole group is gone its number may
// be given to another.
func Kill(cmd *exec.Cmd) { signalGroup(cmd, syscall.SIGKILL) }

func signalGroup(cmd *exec.Cmd, sig syscall.Signal) {
	// The only errors are that nobody is left and that the remaining ones
	// changed their user: there is nothing more to do about either.
	_ = syscall.Kill(-cmd.Process.Pid, sig)
}

// Signalled returns the name of the signal that ended the process; ok is false
// when it ended by itself. The command must have been waited for.
func Signalled(cmd *exec.Cmd) (name string, ok bool) {
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return "", false
	}
	return status.Signal().String(), true
}
