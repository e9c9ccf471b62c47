// Command sidecall runs the sidecar and talks to a running one.
//
// Exit codes: 0 it worked; 1 the tool call failed or could not be settled, there is
// no such conversation, receipts were changed, a demo promise was not kept, a case was not met, the sidecar
// is not ready, or serve could not end cleanly; 2 the command line, the config file or the cases
// are wrong; 3 the sidecar cannot be reached, or could not start, or its answer cannot be printed;
// of find alone, 4 nobody knows whether a call ran; 5 a call is held, or runs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := untilAsked(context.Background())
	cmd, err := newRoot().ExecuteContextC(ctx)
	stop()
	os.Exit(report(cmd, err))
}

// report prints the error, if it says anything, and returns the exit code. cmd
// is the command that was asked for.
func report(cmd *cobra.Command, err error) int {
	if err == nil {
		return 0
	}
	_, ofFile := errors.AsType[*fs.PathError](err)
	if ofFile && errors.Is(err, syscall.EPIPE) { // as where the system ends a process whose answer nobody reads
		return 128 + int(syscall.SIGPIPE)
	}
	if msg := err.Error(); msg != "" {
		within(lastWord, func() { fmt.Fprintln(os.Stderr, "sidecall: "+msg) })
	}
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.code
	}
	if ofFile { // the answer was not printed, whatever was done
		return exitUnavailable
	}
	// cobra's own errors are about the command line.
	fmt.Fprintf(os.Stderr, "usage: %s (more with %s --help)\n", cmd.UseLine(), cmd.CommandPath())
	return exitUsage
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "sidecall",
		Short: "The sidecar that every tool call of an LLM agent goes through",
		Long: `Sidecall validates the arguments of a tool call, runs it at most once per id,
retries only what is provably safe, cuts output without losing it, and answers
every failure so that the model can repair its call.

Exit codes: 0 it worked; 1 the call failed or could not be settled, there is no
such conversation, receipts were changed, a demo promise was not kept, a case was not met, the sidecar is
not ready, or serve could not end cleanly; 2 the command line, the config file or the cases are
wrong; 3 the sidecar cannot be reached or could not start, or its answer cannot be printed; of
find alone, 4 nobody knows whether a call ran; 5 a call is held, or runs.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.Version = buildVersion().line()
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(newServe(), newWrap(), newReport(), newDemo(), newCheck(), newTest(), newTools(), newCall(), newFind(), newResolve(), newApprovals(), newConversations(), newAudit(), newReceipts(), newConsole(), newMCP(), newReady(), newVersion(), newStandIn())
	return root
}
