package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// confirm asks the person at the terminal.
func (r *resolving) confirm(question string) error {
	if r.yes {
		return nil
	}
	return confirm(r.cmd, question, "settled")
}

// confirm asks the person at the terminal; done is what is, or is not, when they have answered.
func confirm(cmd *cobra.Command, question, done string) error {
	in := cmd.InOrStdin()
	if !isTerminal(in) {
		return fail(exitUsage, fmt.Errorf("nothing was %s: there is nobody to ask; --yes says yes without asking", done))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	var ended bool
	answer, err := unlessAsked(cmd.Context(), func() (string, error) {
		answer, err := bufio.NewReader(in).ReadString('\n')
		if ended = errors.Is(err, io.EOF); ended {
			return answer, nil
		}
		return answer, err
	})
	if err != nil {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	case "":
		if ended {
			return fail(exitUsage, fmt.Errorf("nothing was %s: nobody answered; --yes says yes without asking", done))
		}
	}
	return fail(exitFailed, fmt.Errorf("nothing was %s", done))
}

// isTerminal reports whether somebody may be there to answer.
func isTerminal(in io.Reader) bool {
	file, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
