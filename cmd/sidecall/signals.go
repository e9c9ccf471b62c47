package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// asksForEnd are the signals that ask a command to end. A terminal that hangs up is
// one of them, unless whoever started the command has said otherwise (nohup).
func asksForEnd() []os.Signal {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// outlive has the process go on where the system would end it in the middle of its
// calls: when whoever reads its log is gone, or the terminal hangs up once more, as
// it does when its shell ends. Programs that the process starts know nothing of it.
func outlive() {
	unheard := make(chan os.Signal, 1)
	signal.Notify(unheard, syscall.SIGPIPE)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(unheard, syscall.SIGHUP)
	}
}

// lastWord is how long the end of a command waits for somebody to read why it ends.
const lastWord = 2 * time.Second

// within waits for f, which may write to what nobody reads, but not for ever: it is
// left behind, and the process ends.
func within(limit time.Duration, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
