package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A command that reads a pipe which nobody writes to ends when it is told to.
func TestACommandThatReadsAPipeEnds(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"check PIPE", "test PIPE", "tools --config PIPE", "ready --config PIPE", "find --id x --config PIPE", "approvals list --config PIPE",
		"console --config PIPE", "serve PIPE", "call x @PIPE", "resolve --id x --as done --reason y --content @PIPE",
	} {
		ctx, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if got := commandIn(ctx, t, new(bytes.Buffer), strings.Fields(strings.ReplaceAll(name, "PIPE", pipe))...); got.code != exitUnavailable || got.err.Error() != "broken off" {
			t.Errorf("%s: %+v", name, got)
		}
		end()
	}
	// One that was launched need not be told: its program has gone.
	if got := commandIn(t.Context(), t, new(bytes.Buffer), "serve", "--launched", pipe); got.code != exitUnavailable || got.err.Error() != "broken off" {
		t.Errorf("%+v", got)
	}
	// Those that were left behind hold nothing up.
	if fd, err := syscall.Open(pipe, syscall.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
		_ = syscall.Close(fd)
	}
}
