package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// askedName is how the test binary is called as a process that is asked to end, and says so, but
// does not.
const askedName = "asked-to-end"

var sink atomic.Int64

func askedToEnd() {
	for range 2 { // it is at work
		go func() {
			for n := 0; ; n++ {
				sink.Store(int64(n))
			}
		}()
	}
	ctx, _ := untilAsked(context.Background())
	_, _ = os.Stdout.WriteString("ready\n")
	<-ctx.Done()
	_, _ = os.Stdout.WriteString("ending\n")
	time.Sleep(time.Hour)
}

// Who sends a second signal as soon as the first was heard does not wait: it was lost now and then,
// when the process was busy.
func TestASecondSignalEndsAtOnce(t *testing.T) {
	for range 5 {
		p := exec.CommandContext(t.Context(), os.Args[0], askedName)
		p.Env = append(os.Environ(), "GOMAXPROCS=1")
		out, err := p.StdoutPipe()
		if err == nil {
			err = p.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		tooLong := time.AfterFunc(30*time.Second, func() { _ = p.Process.Kill() }) // long beyond what it takes
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if err := p.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
		err = p.Wait()
		tooLong.Stop()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			t.Fatalf("it ended by %v", err)
		}
		if status, is := exit.Sys().(syscall.WaitStatus); !is || status.Signal() != syscall.SIGTERM {
			t.Fatalf("it ended by %v", err)
		}
	}
}

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
