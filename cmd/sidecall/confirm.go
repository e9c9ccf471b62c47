package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// confirm asks the person at the terminal.
func (r *resolving) confirm(question string) error {
	if r.yes {
		return nil
	}
	in := r.cmd.InOrStdin()
	if !isTerminal(in) {
		return fail(exitUsage, errors.New("nothing was settled: there is nobody to ask; --yes settles without asking"))
	}
	fmt.Fprintf(r.cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fail(exitUnavailable, err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	case "":
		if err != nil {
			return fail(exitUsage, errors.New("nothing was settled: nobody answered; --yes settles without asking"))
		}
	}
	return fail(exitFailed, errors.New("nothing was settled"))
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
