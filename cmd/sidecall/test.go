package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sidecall/sidecall/internal/cases"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/tool"
)

func newTest() *cobra.Command {
	var path, only string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "test CASES.yaml",
		Short: "Run your own failure tests against a config file",
		Long: `Run failure tests against a config file: each case is a call, the fault that its
backend has meanwhile (a timeout, a status, a lost acknowledgement, ...) and what
the model must see of it: code, class, hint, attempts, effects. docs/cases.md says
what may stand in such a file.

A sidecar of the config is started for every case, with a store in memory and with
stand-ins for its backends. The real ones are never asked, the real store is not
opened, and no secret is read: what the environment does not have need not be
there. Times are shortened, all in the same proportion.

Exit codes: 0 every case is met; 1 one is not; 2 the cases, the config or the
command line are wrong, and nothing was run; 3 something is not there that a
sidecar needs.`,
		Example: `  sidecall test cases.yaml
  sidecall test cases.yaml --config sidecall.yaml --run refund --json`,
		Args: between(1, 1, "which cases? Name their file: sidecall test cases.yaml", "cases are in one file; the config is named by --config"),
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := regexp.Compile(only)
			if err != nil {
				return fail(exitUsage, fmt.Errorf("--run: %w", err))
			}
			run := tested{File: args[0], Config: path, Cases: []cases.Result{}}
			if err := run.all(cmd.Context(), chosen); err != nil {
				return err
			}
			if asJSON {
				err = writeIndented(cmd.OutOrStdout(), run)
			} else {
				err = run.print(cmd.OutOrStdout())
			}
			if err == nil && run.Unmet > 0 {
				return fail(exitFailed, nil)
			}
			return err
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&path, "config", "c", defaultConfig, "the config file")
	flags.StringVar(&only, "run", "", "run the cases whose names match this pattern only")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml") // the flag is there
	return cmd
}

// standInName is the command that stands in for the commands of a config.
const standInName = "stand-in"

// newStandIn is not for people: sidecall test runs it in the place of commands.
func newStandIn() *cobra.Command {
	return &cobra.Command{
		Use:    standInName + " ADDRESS",
		Short:  "Stand in for a command while sidecall test runs",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if code := cases.Command(args[0], cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()); code != 0 {
				return fail(code, nil)
			}
			return nil
		},
	}
}

// tested is what became of a file of cases.
type tested struct {
	File   string         `json:"file"`
	Config string         `json:"config"`
	Met    int            `json:"met"`
	Unmet  int            `json:"unmet"`
	Cases  []cases.Result `json:"cases"`

	took time.Duration
}

// noExport keeps what cases bring about from those who watch the real sidecars.
const noExport = "OTEL_SDK_DISABLED"

// all runs the cases whose names were chosen.
func (t *tested) all(ctx context.Context, chosen *regexp.Regexp) error {
	began := time.Now()
	program, err := os.Executable()
	if err != nil {
		return fail(exitUnavailable, err)
	}
	suite, err := unlessAsked(ctx, func() (*cases.Suite, error) {
		return cases.Load(t.File, t.Config, cases.Options{Program: []string{program, standInName}})
	})
	if err != nil {
		return err
	}
	if suite = suite.Only(chosen.MatchString); suite.Len() == 0 {
		return fail(exitUsage, errors.New("--run: no case has such a name"))
	}
	if err := os.Setenv(noExport, "true"); err != nil {
		return fail(exitUnavailable, err)
	}
	err = suite.Run(ctx, func(r cases.Result) {
		t.Cases = append(t.Cases, r)
		if r.Met {
			t.Met++
		} else {
			t.Unmet++
		}
	})
	t.took = time.Since(began)
	if _, wrong := errors.AsType[config.Problems](err); wrong {
		return fail(exitUsage, err)
	}
	if err != nil {
		return fail(exitUnavailable, err)
	}
	return nil
}

// print prints a line per call, and then what was not met.
func (t *tested) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tCASE\tTOOL\tSEEN\tATTEMPTS\tEFFECTS")
	for _, r := range t.Cases {
		verdict, name := "ok", plain(r.Name)
		if !r.Met {
			verdict = "FAIL"
		}
		for _, c := range r.Calls {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\n", verdict, name, plain(c.Tool), cmp.Or(c.Seen.Code, c.Seen.Outcome), c.Seen.Attempts, c.Seen.Effects)
			verdict, name = "", ""
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range t.Cases {
		t.printUnmet(out, r)
	}
	_, err := fmt.Fprintf(out, "\n%s met, %d not, %s\n", tool.Count(t.Met, "case"), t.Unmet, t.took.Round(100*time.Millisecond))
	return err
}

// printUnmet prints what was expected of a case and not seen.
func (t *tested) printUnmet(out io.Writer, r cases.Result) {
	if r.Met {
		return
	}
	fmt.Fprintf(out, "\n%s:%d: %s\n", t.File, r.Line, plain(r.Name))
	for _, c := range r.Calls {
		for _, u := range c.Unmet {
			fmt.Fprintf(out, "  %s:%d: %s: %s: expected %s, seen %s\n", t.File, c.Line, plain(c.Tool), u.Key, plain(u.Expected), plain(u.Seen))
		}
		if len(c.Unmet) > 0 {
			fmt.Fprintf(out, "    what the model saw: %s\n", plain(tool.Shorten(c.Seen.Content, shownChars)))
		}
	}
	if r.Disturbed {
		fmt.Fprintln(out, "  this machine stood still while it ran, every time: time limits may have passed because of that")
	}
}

// shownChars is how much of a result is shown that was not the expected one.
const shownChars = 2000

// plain shows a text on one line of a terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}
