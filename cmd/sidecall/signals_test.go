package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
)

// A SIGHUP is a reload, unless it is that of a terminal which is there no more: also of
// one that is taken away a moment after.
func TestWhatAHangupMeans(t *testing.T) {
	for name, c := range map[string]struct {
		had      bool
		terminal []bool // at one look after the other
		want     []string
	}{
		"there never was a terminal":            {false, []bool{false, false}, []string{"reload"}},
		"a terminal was opened since":           {false, []bool{true, false}, []string{"reload"}},
		"the terminal is there":                 {true, []bool{true, true}, []string{"reload"}},
		"the terminal is gone":                  {true, []bool{false}, []string{"end"}},
		"the terminal is taken away after that": {true, []bool{true, false}, []string{"reload", "end"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var did []string
				looks := 0
				h := &hangups{heard: make(chan os.Signal, 1), had: c.had, terminal: func() bool {
					looks++
					return c.terminal[min(looks, len(c.terminal))-1]
				}}
				ctx, cancel := context.WithCancel(t.Context())
				h.heard <- syscall.SIGHUP
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					h.heed(ctx, func() { did = append(did, "reload") }, func() { did = append(did, "end") })
				}()
				if c.want[len(c.want)-1] == "end" {
					<-ended
				}
				synctest.Wait()
				cancel()
				<-ended
				if !slices.Equal(did, c.want) {
					t.Errorf("it did %q, want %q", did, c.want)
				}
			})
		})
	}
}

// Other commands end when their terminal hangs up; serve takes that over.
func TestServeHearsHangups(t *testing.T) {
	others, stop := signal.NotifyContext(t.Context(), syscall.SIGHUP)
	defer stop()
	h := outlive()
	defer signal.Reset(syscall.SIGHUP)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	<-h.heard
	if others.Err() != nil {
		t.Error("it asked for the end, too")
	}
}
