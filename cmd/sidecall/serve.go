package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/sidecall/sidecall/assembly"
	"github.com/sidecall/sidecall/config"
	"github.com/sidecall/sidecall/telemetry"
)

// drainTimeout is how long calls in flight may take to end after SIGTERM; the
// usual grace of an orchestrator is 30 s.
const drainTimeout = 25 * time.Second

// defaultConfig is the config file of a command line that names none.
const defaultConfig = "sidecall.yaml"

// aboutServe is its help.
const aboutServe = `Run the sidecar that a config file describes, until SIGINT or SIGTERM, or until the
terminal hangs up that it was started from. Then new calls are handed back as
UNAVAILABLE, which is safe to send again, and calls in flight may end, for 25 s at
most. Those that still run then are cut off, and the exit code is 1. A second SIGINT
or SIGTERM ends the process at once: what became of the calls in flight is then
decided at the next start.

The config is read anew on SIGHUP, and when the file changes, or one that its ${file:…}
references lead to. It takes over whole or not at all: one that is wrong, or that says
something else of what needs a restart, is refused with its line and column in the
log, and the one before it stays in force. Calls in flight end as they began.

The log goes to stderr. That nobody reads it ends no call: lines are lost then.

A program that starts its own sidecar keeps a pipe open to its standard input and says
--until-eof: then it ends with the program, however that ends.`

func newServe() *cobra.Command {
	var path, level string
	var listen []string
	var eof, watch bool
	cmd := &cobra.Command{
		Use:   "serve [FILE]",
		Short: "Run the sidecar",
		Long:  aboutServe,
		Example: `  sidecall serve sidecall.yaml
  sidecall serve --config sidecall.yaml
  sidecall serve sidecall.yaml --listen unix:///run/agent/sidecall.sock --until-eof`,
		Args: between(0, 1, "", "a sidecar has one config file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if cmd.Flags().Changed("config") {
					return fail(exitUsage, errors.New("the config file is named by an argument and by --config: name it once"))
				}
				path = args[0]
			}
			hangups := outlive()
			lines := telemetry.NewLines(os.Stderr)
			defer func() { _ = lines.Close() }() // a log that cannot be written has nobody to tell
			logger, err := newLogger(lines, level)
			if err != nil {
				return fail(exitUsage, err)
			}
			defer assembly.Isolate(logger)()
			if _, err := os.Stat(path); path == defaultConfig && errors.Is(err, fs.ErrNotExist) {
				return fail(exitUsage, fmt.Errorf("there is no %s here: name the config file, as in sidecall serve FILE", defaultConfig))
			}
			from := &source{Watch: config.NewWatch(path), listen: listen, watch: watch}
			cfg, err := from.Load()
			if err != nil {
				return fail(exitUsage, err)
			}
			ctx := cmd.Context()
			if eof {
				var cancel context.CancelFunc
				ctx, cancel = untilEOF(ctx, cmd.InOrStdin())
				defer cancel()
			}
			tuneGC()
			return serve(ctx, cfg, hangups, assembly.Options{Log: logger, Version: buildVersion().Version, Source: from})
		},
	}
	cmd.Flags().StringVarP(&path, "config", "c", defaultConfig, "the config file")
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error; info writes one line per call")
	cmd.Flags().StringArrayVar(&listen, "listen", nil, "serve agents here instead of where the config says: unix:///path or tcp://host:port; may be given again; the admin address is off then, unless the config names one")
	cmd.Flags().BoolVar(&watch, "watch", true, "take the config over when its files change; with --watch=false on SIGHUP only")
	cmd.Flags().BoolVar(&eof, "until-eof", false, "end, as on SIGTERM, when standard input does")
	return cmd
}

// untilEOF ends ctx when nobody can write to a reader any more: whoever started
// this process is gone.
func untilEOF(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with the reader, or with the process
		defer cancel()
		_, _ = io.Copy(io.Discard, in) // one that fails has nobody at its other end either
	}()
	return ctx, cancel
}

// gcPercent trades memory for processor time: what is alive in a sidecar is a
// few MiB, and at Go's default of 100 collecting it takes a sixth of a loaded
// sidecar's time. GOGC in the environment wins.
const gcPercent = 300

func tuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

func newLogger(out io.Writer, level string) (slog.Handler, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	return slog.NewJSONHandler(out, &slog.HandlerOptions{Level: l}), nil
}

// source is the config file with what the command line says instead of it.
type source struct {
	*config.Watch

	listen []string
	watch  bool
}

// Load implements assembly.Source.
func (s *source) Load() (*config.Config, error) {
	cfg, err := s.Watch.Load()
	if err != nil || len(s.listen) == 0 {
		return cfg, err
	}
	if cfg, err = cfg.ListeningAt(s.listen...); err != nil {
		return nil, fmt.Errorf("--listen %w", err)
	}
	return cfg, nil
}

// Changed implements assembly.Source.
func (s *source) Changed() bool { return s.watch && s.Watch.Changed() }

// serve runs a sidecar until ctx ends, its terminal hangs up or a part of it fails.
func serve(ctx context.Context, cfg *config.Config, hangups *hangups, options assembly.Options) error {
	sidecar, err := assembly.Start(ctx, cfg, options)
	if err != nil {
		return fail(startCode(err), err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go hangups.heed(ctx, sidecar.Reload, cancel)
	var errs []error
	if err := sidecar.Wait(ctx); err != nil {
		errs = append(errs, fail(exitUnavailable, err))
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := sidecar.Stop(drain); err != nil {
		errs = append(errs, fail(exitFailed, err))
	}
	return errors.Join(errs...)
}

// startCode tells a config that is wrong from a world that is not as it says.
func startCode(err error) int {
	if _, ok := errors.AsType[config.Problems](err); ok {
		return exitUsage
	}
	return exitUnavailable
}
