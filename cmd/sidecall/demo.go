package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sidecall/sidecall/cmd/sidecall/demo"
)

func newDemo() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Watch Sidecall survive the incidents that agents die of",
		Long: `Starts a sidecar on the embedded store and a local upstream that misbehaves on
purpose, and shows, call by call, what a model would have seen beside what the
upstream really did. Needs nothing installed. The exit code is 1 when a promise
was not kept.`,
		Args: between(0, 0, "", ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			// It starts processes, which it ends: also where whoever reads it has gone, as head does.
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
			err := demo.Run(cmd.Context(), cmd.OutOrStdout())
			switch {
			case errors.Is(err, demo.ErrBroken):
				return fail(exitFailed, err)
			case err != nil:
				return fail(exitUnavailable, err)
			default:
				return nil
			}
		},
	}
}
