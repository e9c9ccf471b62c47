package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sidecall/sidecall/internal/app"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/tool"
)

// checking is how far sidecall check goes.
type checking struct {
	json, strict, discover bool
	ignore                 []string
	timeout                time.Duration
}

func newCheck() *cobra.Command {
	var how checking
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a config file, its schemas and its expressions, without starting anything",
		Long: `Check a config file: syntax, keys, values, secrets, JSON Schemas, CEL expressions,
URL templates, and what compiles and will hurt all the same. Everything that is
found is printed with its line and column and the short name of its rule, in one
run; docs/check.md lists the rules. Errors are what serve refuses too.

With --discover, mcp backends are started or connected to and asked for their
tools, and what the file says of them is held against that.

The exit code is 2 when there is an error, with --strict also when there is a
warning, else 0. Notes never fail.`,
		Args: between(1, 1, "name the config file", "one file is checked at a time"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := how.known(); err != nil {
				return fail(exitUsage, err)
			}
			found, err := unlessAsked(cmd.Context(), func() (findings, error) { return checkFile(cmd.Context(), args[0], how), nil })
			if err != nil {
				return err
			}
			if how.json {
				if err := writeIndented(cmd.OutOrStdout(), found); err != nil {
					return err
				}
			} else if err := found.print(cmd.OutOrStdout()); err != nil {
				return err
			}
			if len(found.Errors) > 0 || how.strict && len(found.Warnings) > 0 {
				return fail(exitUsage, nil)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&how.json, "json", false, "print JSON")
	flags.BoolVar(&how.strict, "strict", false, "exit with 2 for a warning too")
	flags.StringSliceVar(&how.ignore, "ignore", nil, "rules whose warnings and notes are meant, such as strict-mode,tls-unverified")
	flags.BoolVar(&how.discover, "discover", false, "ask mcp backends for their tools; starts their commands")
	flags.DurationVar(&how.timeout, "timeout", 30*time.Second, "how long --discover waits for a backend")
	return cmd
}

// known refuses a rule to ignore that there is not, and one that finds errors.
func (c checking) known() error {
	for _, name := range c.ignore {
		switch at := slices.IndexFunc(config.Rules(), func(r config.RuleInfo) bool { return string(r.Rule) == name }); {
		case at < 0:
			return fmt.Errorf("--ignore: there is no rule %q", name)
		case config.Rules()[at].Severity == config.Wrong:
			return fmt.Errorf("--ignore: %s finds errors, which serve refuses too", name)
		}
	}
	return nil
}

// findings is what check found. Errors and warnings are lines with their
// position; Findings are all of them in parts.
type findings struct {
	File     string    `json:"file"`
	Tools    int       `json:"tools"`
	Backends int       `json:"backends"`
	Errors   []string  `json:"errors"`
	Warnings []string  `json:"warnings"`
	Findings []finding `json:"findings"`
}

// finding is one of them. Line and column count from 1; 0 for the file as a
// whole.
type finding struct {
	Severity config.Severity `json:"severity"`
	Rule     config.Rule     `json:"rule"`
	File     string          `json:"file"`
	Line     int             `json:"line"`
	Column   int             `json:"column"`
	Path     string          `json:"path"`
	Message  string          `json:"message"`
}

func checkFile(ctx context.Context, path string, how checking) findings {
	found := findings{File: path, Errors: []string{}, Warnings: []string{}, Findings: []finding{}}
	cfg, known := config.Examine(path)
	all := []config.Problem(known)
	if cfg != nil {
		found.Tools, found.Backends = len(cfg.Tools), len(cfg.Backends)
		ctx, cancel := context.WithTimeout(ctx, how.timeout)
		defer cancel()
		all = app.Check(ctx, cfg, known, app.CheckOptions{Discover: how.discover, Version: buildVersion().Version})
	}
	for _, p := range all {
		if slices.Contains(how.ignore, string(p.Rule)) {
			continue
		}
		found.Findings = append(found.Findings, finding{p.Severity(), p.Rule, p.File, p.Line, p.Column, p.Path, p.Message})
		switch p.Severity() {
		case config.Wrong:
			found.Errors = append(found.Errors, p.Error())
		case config.Doubtful:
			found.Warnings = append(found.Warnings, p.Error())
		case config.Telling:
		}
	}
	return found
}

// print prints the errors first: they are what has to be mended.
func (f findings) print(out io.Writer) error {
	for _, severity := range []config.Severity{config.Wrong, config.Doubtful, config.Telling} {
		for _, one := range f.Findings {
			if one.Severity == severity {
				line := config.Problem{File: one.File, Line: one.Line, Column: one.Column, Path: one.Path, Message: one.Message}
				fmt.Fprintf(out, "%s: %s [%s]\n", severity, line.Error(), one.Rule)
			}
		}
	}
	var err error
	if len(f.Errors) == 0 {
		_, err = fmt.Fprintf(out, "%s: ok: %s, %s\n", f.File, tool.Count(f.Backends, "backend"), tool.Count(f.Tools, "tool"))
	} else {
		_, err = fmt.Fprintf(out, "%s: %s\n", f.File, tool.Count(len(f.Errors), "error"))
	}
	return err
}
