package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"

	sidecall "github.com/sidecall/sidecall/clients/go"
	"github.com/sidecall/sidecall/internal/telemetry"
	"github.com/sidecall/sidecall/server/mcp"
)

const mcpHelp = `Serve the tools of a config file to an MCP client over standard input and output, with
all that the sidecar does for a call. The client's config names this command as its
server. Several of them with one config share one sidecar, as those share one that
programs launch; it ends with the last of them, and they with it. With --addr it is a
running sidecar's tools that are served; while that is away each request is told so.

A call is run once where the client says which one it is: _meta dev.sidecall/toolUseId,
and dev.sidecall/conversationId for it to be known in another process too; of Claude Code
it is known anyway. Without an id each request is a call of its own.

Over HTTP MCP clients are served by sidecall serve: the setting http.`

func newMCP() *cobra.Command {
	var path, addr, profile, level string
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve the tools of a config to an MCP client over stdin and stdout",
		Long:  mcpHelp,
		Example: `  sidecall mcp --config sidecall.yaml
  sidecall mcp --addr unix:///run/sidecall/sidecall.sock --profile research`,
		Args: between(0, 0, "", "name the config file with --config"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			lines := telemetry.NewLines(cmd.ErrOrStderr()) // which not every client reads
			defer func() { _ = lines.Close() }()
			logger, err := newLogger(lines, level)
			if err != nil {
				return fail(exitUsage, err)
			}
			options := mcp.Options{Version: buildVersion().Version, Log: slog.New(logger)}
			if addr != "" {
				return withConnection(addr, func(client *sidecall.Client) error {
					return serveMCP(cmd.Context(), client, addr, profile, options)
				})
			}
			ctx, end := context.WithCancelCause(cmd.Context())
			defer end(nil)
			options.Lost = func() { end(errOwnEnded) }
			return withLaunched(cmd, path, lines, func(client *sidecall.Client) error {
				return serveMCP(ctx, client, "a socket of its own", profile, options)
			})
		},
	}
	cmd.Flags().StringVarP(&path, "config", "c", defaultConfig, "the config file")
	cmd.Flags().StringVar(&addr, "addr", "", "serve the tools of the sidecar at this address instead: tcp://host:port or unix:///path")
	cmd.Flags().StringVar(&profile, "profile", "", "the profile whose tools are served; without it the config's default")
	cmd.Flags().StringVar(&level, "log-level", "warn", "debug, info, warn or error: of what this command says itself on stderr")
	cmd.MarkFlagsMutuallyExclusive("config", "addr")
	return cmd
}

// withLaunched runs do with a client of a sidecar that belongs to this process, whose log goes to lines.
func withLaunched(cmd *cobra.Command, path string, lines io.Writer, do func(*sidecall.Client) error) (err error) {
	self, err := os.Executable()
	if err != nil {
		return fail(exitUnavailable, err)
	}
	log := func(line string) { _, _ = io.WriteString(lines, line+"\n") } // who does not read it misses lines
	client, err := sidecall.Launch{Config: path, Binary: self, Log: log}.Start(cmd.Context())
	if err != nil {
		why, _, _ := strings.Cut(err.Error(), "\n") // then come lines that log has said
		return fail(launchCode(err), errors.New(why))
	}
	defer func() {
		if e := client.Close(); err == nil && e != nil {
			err = fail(exitUnavailable, e)
		}
	}()
	return do(client)
}

// launchCode tells a config that is wrong from a sidecar that could not start: as the sidecar does.
func launchCode(err error) int {
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() == exitUsage {
		return exitUsage
	}
	return exitUnavailable
}

// errOwnEnded is that of a sidecar that was launched, and does not come back: its client knows what to do with a server
// that has ended.
var errOwnEnded = errors.New("the sidecar of this command has ended: start this server again")

// serveMCP serves one client with what the sidecar at addr has, until it leaves.
func serveMCP(ctx context.Context, client *sidecall.Client, addr, profile string, options mcp.Options) error {
	options.Tools, options.Servers = client.Stub(), client.Servers()
	options.Scope = "mcp-stdio/" + rand.Text() // a process has one client, and nobody else knows the name
	front := mcp.New(options)
	defer front.Close()
	err := front.Run(ctx, mcp.Stdio(os.Stdin, os.Stdout), profile)
	if errors.Is(context.Cause(ctx), errOwnEnded) {
		return fail(exitUnavailable, errOwnEnded)
	}
	if _, ofSidecar := status.FromError(err); ofSidecar && err != nil {
		return rpcError(addr, lostList, err)
	}
	if err != nil {
		return fail(exitUnavailable, fmt.Errorf("the MCP client: %w", err))
	}
	return nil
}
