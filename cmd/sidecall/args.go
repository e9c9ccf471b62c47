package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// between lets a command have that many arguments. few and more say what to do where
// there are too few or too many.
func between(least, most int, few, more string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return errors.New(few)
		case len(args) > most && more != "":
			return fmt.Errorf("%q is an argument too many: %s", args[most], more)
		case len(args) > most:
			return fmt.Errorf("%q is an argument too many", args[most])
		default:
			return nil
		}
	}
}
