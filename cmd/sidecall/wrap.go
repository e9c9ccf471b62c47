package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sidecall/sidecall/internal/app"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/telemetry"
)

const (
	// wrapTimeout is how long a call may take. Servers have tools that build and browse, and
	// clients have a patience of their own.
	wrapTimeout = 10 * time.Minute
	// wrapOutput is how many characters of a result are shown: some 8,000 tokens, from where on
	// clients warn of a result, or cut it.
	wrapOutput = 32_000
)

// aboutWrap is its help.
const aboutWrap = `Stand in for an MCP server in the config of a client: put "sidecall wrap --" before its
command, or "sidecall wrap --url" before its URL. The client sees the same server, and each call of a tool gets what Sidecall gives
it: at most once per id, timeouts, retries of what may be repeated, a breaker, arguments
held against the tool's schema, long results cut with the rest kept for read_output, and
a server that crashes is started again. All else passes as it is.

A tool has an effect that must not be repeated unless --effects or --trust-annotations say
otherwise. What is recorded is kept in $XDG_STATE_HOME/sidecall (else
~/.local/state/sidecall), which all wrappers of a user share. Which ids are taken, and
from which clients they come, docs/wrap.md says.`

// wrapFlags are those of the command.
type wrapFlags struct {
	name, effects, state, level, print string
	url                                string
	headers                            []string
	private, trust, guard, observe     bool
	timeout                            time.Duration
	maxOutput                          int
}

func newWrap() *cobra.Command {
	var f wrapFlags
	cmd := &cobra.Command{
		Use:   "wrap [flags] {--url URL | -- COMMAND [ARGUMENT...]}",
		Short: "Stand in for an MCP server, with Sidecall's guarantees",
		Long:  aboutWrap,
		Example: `  sidecall wrap -- npx -y @modelcontextprotocol/server-filesystem /data
  sidecall wrap --url https://mcp.example.com/mcp --header 'Authorization: Bearer ${env:TOKEN}'
  sidecall wrap --print-config claude -- npx -y @modelcontextprotocol/server-filesystem /data`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && f.url == "":
				return errors.New("name the command of the server behind --, or its --url")
			case len(args) > 0 && f.url != "":
				return errors.New("name the command of the server or its --url, not both")
			case f.url == "" && (len(f.headers) > 0 || f.private):
				return errors.New("--header and --allow-private are for a server with --url")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("print-config") {
				if err := f.printable(); err != nil {
					return fail(exitUsage, err)
				}
				return printClientConfig(cmd.OutOrStdout(), f.print, f.said(cmd, args), f.nameOf(args))
			}
			out := cmd.OutOrStdout()
			os.Stdout = os.Stderr // what else would be printed there is no message
			return f.run(cmd.Context(), cmd.InOrStdin(), out, args)
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // what is behind the command is the command's
	flags.StringVar(&f.url, "url", "", "the URL of a server that speaks streamable HTTP, in the place of a command; ${env:NAME} and ${file:PATH} stand for what they name")
	flags.StringArrayVar(&f.headers, "header", nil, "'NAME: VALUE', sent with every request to the URL, with references as there; may be given several times")
	flags.BoolVar(&f.private, "allow-private", false, "allow loopback and private addresses for the URL")
	flags.StringVar(&f.name, "name", "", "what the server is called: ids count within it; without this flag made of the command or the URL")
	flags.StringVar(&f.effects, "effects", "", "a YAML file that says of tools what repeating them does (TOOL: read_only, idempotent or non_idempotent; * for the rest), or more, as backends.NAME.tools of a config does")
	flags.BoolVar(&f.trust, "trust-annotations", false, "take effects from the server's own annotations (readOnlyHint, idempotentHint) where --effects says nothing")
	flags.DurationVar(&f.timeout, "timeout", wrapTimeout, "how long the server may take for a call without reporting progress")
	flags.IntVar(&f.maxOutput, "max-output-chars", wrapOutput, "the most characters of a result that are shown; the rest is kept for read_output")
	flags.BoolVar(&f.guard, "loop-guard", false, "refuse what a model repeats in circles, for clients that say their conversation")
	flags.BoolVar(&f.observe, "observe", false, "let every call pass as it is, and write down what would have become of it: see sidecall report")
	flags.StringVar(&f.state, "state", "", "where what is recorded is kept, a directory; without this flag $XDG_STATE_HOME/sidecall")
	flags.StringVar(&f.level, "log-level", "warn", "debug, info, warn or error, on stderr; info writes one line per call")
	flags.StringVar(&f.print, "print-config", "", "print what to put into the config of a client, and run nothing: claude, vscode, cursor or codex")
	return cmd
}

// run stands in for a server until its client has gone.
func (f *wrapFlags) run(ctx context.Context, in io.Reader, out io.Writer, command []string) error {
	lines := telemetry.NewLines(os.Stderr)
	defer func() { _ = lines.Close() }() // a log that cannot be written has nobody to tell
	options, err := logOptions(f.level)
	if err != nil {
		return fail(exitUsage, err)
	}
	log := slog.NewTextHandler(lines, options)
	defer app.Isolate(log)()
	state, err := f.stateFile()
	if err != nil {
		return fail(exitUnavailable, err)
	}
	cfg, err := unlessAsked(ctx, func() (*config.Config, error) { return f.config(state) })
	if err != nil {
		return err
	}
	observe := ""
	if f.observe {
		observe = filepath.Join(filepath.Dir(state), observedFile)
	}
	wrapper := app.Wrapper{Observe: observe, Config: cfg, Tenant: f.tenant(command), Command: command, In: in, Out: out}
	err = wrapper.Serve(ctx, app.Options{Log: log, Version: buildVersion().Version})
	switch {
	case errors.Is(err, app.ErrNoProgram):
		return fail(exitUsage, err)
	case err != nil:
		return fail(startCode(err), err)
	}
	return nil
}
