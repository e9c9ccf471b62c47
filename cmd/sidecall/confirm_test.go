package main

import (
	"context"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// newTerminal is one that nobody types at.
func newTerminal(t *testing.T) *os.File {
	t.Helper()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	return terminal
}

// Who is asked and wants the command to end need not answer.
func TestAQuestionEndsWithItsCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cmd := new(cobra.Command)
	cmd.SetContext(ctx)
	cmd.SetIn(newTerminal(t))
	cmd.SetErr(onceAsked(cancel))
	if err := confirm(cmd, "Deny it?", "denied"); err == nil || err.Error() != "broken off" {
		t.Error(err)
	}
}

// onceAsked does something as soon as somebody is asked.
type onceAsked func()

func (f onceAsked) Write(question []byte) (int, error) {
	f()
	return len(question), nil
}

func TestNobodyAnswersThere(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	reader, writer := io.Pipe()
	defer writer.Close()
	if isTerminal(null) || isTerminal(reader) || isTerminal(strings.NewReader("y\n")) {
		t.Error("what is no terminal is asked")
	}
}
