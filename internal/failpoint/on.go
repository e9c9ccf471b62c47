//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// exitMisspelt is the exit code for a value that cannot be understood.
const exitMisspelt = 64

var (
	// armed is the fault of this process; its name is empty when there is none.
	armed = arm()
	hits  atomic.Int64
)

func arm() fault {
	text, ok := os.LookupEnv(Env)
	if !ok {
		return fault{}
	}
	f, err := parse(text)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", Env, err)
		os.Exit(exitMisspelt)
	}
	return f
}

// Hit says that a step is reached, and suffers the fault that is set for it.
func Hit(name Name) {
	if name != armed.name {
		return
	}
	hit := hits.Add(1)
	if armed.at != 0 && armed.at != hit {
		return
	}
	// One write, past every buffer: the process may not live to flush one.
	fmt.Fprintf(os.Stderr, "failpoint %s: %s at hit %d\n", name, armed.action, hit)
	switch armed.action {
	case "kill":
		signal(syscall.SIGKILL)
	case "stop":
		signal(syscall.SIGSTOP)
	case "sleep":
		time.Sleep(armed.sleep)
	default:
		panic("failpoint " + string(name))
	}
}

// signal sends a signal to this very thread, so that it takes effect before
// the next instruction. A signal to the process may reach another thread
// first, while this one runs on.
func signal(sig syscall.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Tgkill(os.Getpid(), syscall.Gettid(), sig); err != nil {
		panic(fmt.Sprintf("failpoint: %s was not sent: %v", sig, err))
	}
}
