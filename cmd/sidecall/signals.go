package main

import (
	"context"
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

// untilAsked returns a context that ends with the first signal that asks for an end. Whoever sends
// a second one does not want to wait, and gets what the system does by itself: so it is before
// anything shows that the first was heard, and one that has come by then is passed on.
func untilAsked(parent context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	heard := make(chan os.Signal, 2)
	signal.Notify(heard, asksForEnd()...)
	go func() {
		defer cancel()
		select {
		case <-heard:
		case <-ctx.Done():
		}
		signal.Stop(heard)
		select {
		case again := <-heard:
			if again, ok := again.(syscall.Signal); ok {
				_ = syscall.Kill(os.Getpid(), again) // it is this process, and a signal that there is
			}
		default:
		}
	}()
	return ctx, cancel
}

// outlive has the process go on where the system would end it in the middle of its
// calls: when whoever reads its log is gone, or on SIGHUP, which is left to heed.
// Programs that the process starts know nothing of it.
func outlive() *hangups {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	h := &hangups{heard: make(chan os.Signal, 1), terminal: terminal}
	// Whoever started the process with nohup wants it to outlive its terminal.
	h.had = !signal.Ignored(syscall.SIGHUP) && terminal()
	signal.Reset(syscall.SIGHUP) // which asks for the end of other commands
	signal.Notify(h.heard, syscall.SIGHUP)
	return h
}

// hangups are the SIGHUPs of a process.
type hangups struct {
	heard chan os.Signal
	// terminal reports whether the process has one that can hang up, and had that it
	// had one when it began.
	terminal func() bool
	had      bool
}

// lookAgain is how long after a SIGHUP its terminal is looked for once more: the system
// may send the one before it takes the other away.
const lookAgain = 100 * time.Millisecond

// heed has a SIGHUP reload the config, as it does in other servers. That of a terminal
// which is there no more ends the process instead: whoever started it there is gone.
func (h *hangups) heed(ctx context.Context, reload, end func()) {
	gone := func() bool { return h.had && !h.terminal() }
	for {
		select {
		case <-h.heard:
		case <-ctx.Done():
			return
		}
		if !gone() {
			reload()
			select {
			case <-time.After(lookAgain):
			case <-ctx.Done():
				return
			}
		}
		if gone() {
			end()
			return
		}
	}
}

// terminal reports whether the process has a terminal that can hang up.
func terminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	_ = f.Close() // nothing was read or written
	return true
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
