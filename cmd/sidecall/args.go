package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// between lets a command have that many arguments. missing says what the first is,
// for a command that needs one; more, if it is not empty, why there may be too many.
func between(least, most int, missing, more string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return fmt.Errorf("%s: %s is missing", cmd.CommandPath(), missing)
		case len(args) > most && more != "":
			return fmt.Errorf("%q is an argument too many: %s", args[most], more)
		case len(args) > most:
			return fmt.Errorf("%q is an argument too many", args[most])
		default:
			return nil
		}
	}
}
