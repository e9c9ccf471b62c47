package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sidecall/sidecall/internal/app"
)

// observedFile is where wrappers that observe write down what passes, in the directory of the state.
const observedFile = "observed.jsonl"

func newReport() *cobra.Command {
	var f wrapFlags
	var file string
	since := ago{7 * 24 * time.Hour}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "report",
		Short: "What Sidecall would have done of the calls that were observed",
		Long: `Says, in a page, what Sidecall would have done of the calls that passed wrappers with
--observe, or, with --file, of those of a sidecar's profiles with mode: observe: calls that
were made again, loops, arguments that would have been refused and what the model would
have been told, results that would have been cut, and calls of which nobody knows what
became.`,
		Example: `  sidecall wrap --observe -- npx -y @modelcontextprotocol/server-filesystem /data
  sidecall report --since 24h
  sidecall report --file observed.jsonl`,
		Args: between(0, 0, "", ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				state, err := f.stateFile()
				if err != nil {
					return fail(exitUnavailable, err)
				}
				file = filepath.Join(filepath.Dir(state), observedFile)
			} else if _, err := os.Stat(file); err != nil {
				return fail(exitUsage, err)
			}
			report, err := app.ReadReport(file, time.Now().Add(-since.Duration))
			if err != nil {
				return fail(exitUnavailable, err)
			}
			if asJSON {
				return writeIndented(cmd.OutOrStdout(), report)
			}
			var page bytes.Buffer
			report.Write(&page)
			_, err = fmt.Fprint(cmd.OutOrStdout(), shown(page.String())) // tools name themselves
			return err
		},
	}
	cmd.Flags().StringVar(&f.state, "state", "", "the directory that the wrappers have; without this flag $XDG_STATE_HOME/sidecall")
	cmd.Flags().StringVar(&file, "file", "", "the file of a sidecar's observe.file; without this flag that of the wrappers")
	cmd.Flags().Var(&since, "since", "how far back to look, such as 90m, 24h or 7d")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}
