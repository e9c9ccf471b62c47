package process

import (
	"os/exec"
	"syscall"
	"time"
)

// lead makes the command the leader of a new process group, and lets it run as
// user; nil stands for this process's own.
func lead(cmd *exec.Cmd, user *User) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if user != nil && !user.IsOwn() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user.UID, Gid: user.GID, Groups: user.Groups}
	}
}

// Wait waits for a command that was started. Once asked is closed the command has patience to
// end by itself, and then grace to end after SIGTERM; cut says that it was not left to itself.
// What is left of its group is killed, and still has to be ended with End.
func Wait(cmd *exec.Cmd, asked <-chan struct{}, patience, grace time.Duration) (cut bool, err error) {
	var how error // set when it has exited
	exited := make(chan struct{})
	go func() {
		how = cmd.Wait()
		close(exited)
	}()
	within := func(d time.Duration) bool {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-exited:
		case <-timer.C:
		}
		select {
		case <-exited: // maybe in the same moment
			return true
		default:
			return false
		}
	}
	select {
	case <-exited:
	case <-asked:
		if cut = !within(patience); cut {
			signalGroup(cmd, syscall.SIGTERM)
			if !within(grace) {
				kill(cmd)
				<-exited
			}
		}
	}
	kill(cmd) // at once: while anybody is left the number of the group is taken
	return cut, how
}

// kill ends every process of the group at once. It may be called after Wait, to end
// what the leader left behind, but then without delay: once the whole group is gone
// its number may be given to another.
func kill(cmd *exec.Cmd) { signalGroup(cmd, syscall.SIGKILL) }

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
