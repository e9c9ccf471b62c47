package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sidecall/sidecall/assembly"
	"github.com/sidecall/sidecall/config"
	"github.com/sidecall/sidecall/tool"
)

func newCheck() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a config file, its schemas and its expressions, without starting anything",
		Long: `Check a config file: syntax, keys, values, secrets, JSON Schemas, CEL expressions,
URL templates. Everything that is wrong is printed with its line and column.
Warnings, keys that are read but not enforced yet, and what the strict modes of
providers would drop from a schema are printed too. The exit code is 2 when the
file cannot be served.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			found := checkFile(cmd.Context(), args[0])
			if asJSON {
				if err := writeIndented(cmd.OutOrStdout(), found); err != nil {
					return err
				}
			} else if err := found.print(cmd.OutOrStdout()); err != nil {
				return err
			}
			if len(found.Errors) > 0 {
				return fail(exitUsage, nil)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// findings is what check found, each as one line with its position.
type findings struct {
	File     string   `json:"file"`
	Tools    int      `json:"tools"`
	Backends int      `json:"backends"`
	Errors   []string `json:"errors"`
	Warnings []string `json:"warnings"`
}

func checkFile(ctx context.Context, path string) findings {
	found := findings{File: path, Errors: []string{}, Warnings: []string{}}
	cfg, err := config.Load(path)
	if err != nil {
		found.Errors = lines(err)
		return found
	}
	found.Tools, found.Backends = len(cfg.Tools), len(cfg.Backends)
	warnings, err := assembly.Check(ctx, cfg)
	for _, p := range warnings {
		found.Warnings = append(found.Warnings, p.Error())
	}
	if err != nil {
		found.Errors = lines(err)
	}
	return found
}

// lines splits the problems of a config into one line each.
func lines(err error) []string {
	var problems config.Problems
	if !errors.As(err, &problems) {
		return []string{err.Error()}
	}
	all := make([]string, len(problems))
	for i, p := range problems {
		all[i] = p.Error()
	}
	return all
}

func (f findings) print(out io.Writer) error {
	for _, e := range f.Errors {
		fmt.Fprintln(out, "error:", e)
	}
	for _, w := range f.Warnings {
		fmt.Fprintln(out, "warning:", w)
	}
	var err error
	if len(f.Errors) == 0 {
		_, err = fmt.Fprintf(out, "%s: ok: %s, %s\n", f.File, tool.Count(f.Backends, "backend"), tool.Count(f.Tools, "tool"))
	} else {
		_, err = fmt.Fprintf(out, "%s: %s\n", f.File, tool.Count(len(f.Errors), "error"))
	}
	return err
}
