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

	"github.com/sidecall/sidecall/internal/app"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/telemetry"
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

A program that starts its own sidecar says --launched, keeps a pipe open to its standard
input and reads its standard output. There stands, in a line of JSON, where the sidecar
serves, once it is ready or --start-timeout is over: {"listen": "unix:///…", "missing":
{"BACKEND": "reason"}}. It ends with the program, however that ends. Programs that launch
one with the same config on one embedded store share one: it serves until the last of
them has gone. The program that began it is told {"stays": true} when it leaves before
others do. A sidecar whose last program was killed lets its calls end; the next one
waits for that.`

func newServe() *cobra.Command {
	var path, level string
	var listen []string
	var launched, watch bool
	var start time.Duration
	cmd := &cobra.Command{
		Use:   "serve [FILE]",
		Short: "Run the sidecar",
		Long:  aboutServe,
		Example: `  sidecall serve sidecall.yaml
  sidecall serve --config sidecall.yaml
  sidecall serve sidecall.yaml --launched`,
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
			defer app.Isolate(logger)()
			if _, err := os.Stat(path); path == defaultConfig && errors.Is(err, fs.ErrNotExist) {
				return fail(exitUsage, fmt.Errorf("there is no %s here: name the config file, as in sidecall serve FILE", defaultConfig))
			}
			from := &source{Watch: config.NewWatch(path), listen: listen, watch: watch}
			options := app.Options{Log: logger, Version: buildVersion().Version, Source: from}
			if launched {
				return serveLaunched(cmd, from, start, hangups, options)
			}
			cfg, err := unlessAsked(cmd.Context(), from.Load)
			if err != nil {
				return err
			}
			tuneGC()
			return serve(cmd.Context(), cfg, hangups, options, nil)
		},
	}
	cmd.Flags().StringVarP(&path, "config", "c", defaultConfig, "the config file")
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error; info writes one line per call")
	cmd.Flags().StringArrayVar(&listen, "listen", nil, "serve agents here instead of where the config says: unix:///path or tcp://host:port; may be given again; the admin address is off then, unless the config names one")
	cmd.Flags().BoolVar(&watch, "watch", true, "take the config over when its files change; with --watch=false on SIGHUP only")
	cmd.Flags().BoolVar(&launched, "launched", false, "belong to the program that has started this: serve on a socket of its own, say on standard output where, end when standard input does")
	cmd.Flags().DurationVar(&start, "start-timeout", startTimeout, "with --launched: how long an earlier sidecar on the store, and backends that find their tools by themselves, are waited for")
	cmd.MarkFlagsMutuallyExclusive("launched", "listen")
	return cmd
}

// serveLaunched is serve for a program that has started this process.
func serveLaunched(cmd *cobra.Command, from *source, timeout time.Duration, hangups *hangups, options app.Options) error {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	l, err := newLaunch(ctx, cmd.OutOrStdout(), from, timeout)
	if err != nil {
		return fail(exitUnavailable, err)
	}
	defer l.close()
	go func() { // ends with the reader, or with the process
		defer cancel()
		_, _ = io.Copy(io.Discard, cmd.InOrStdin()) // one that fails has nobody at its other end either
		l.release(ctx)
	}()
	from.listen = []string{l.address()}
	cfg, err := unlessAsked(ctx, from.Load)
	if err != nil {
		return err
	}
	cfg, guest, err := l.enter(cfg, options)
	if err == nil && guest != nil {
		if err = l.stay(ctx, guest); err == nil {
			return nil
		}
	}
	if err != nil {
		return fail(exitUnavailable, err)
	}
	tuneGC()
	return serve(ctx, cfg, hangups, options, l)
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
	options, err := logOptions(level)
	return slog.NewJSONHandler(out, options), err
}

func logOptions(level string) (*slog.HandlerOptions, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	return &slog.HandlerOptions{Level: l}, nil
}

// source is the config file with what the command line says instead of it.
type source struct {
	*config.Watch

	listen []string
	watch  bool
}

// Load implements app.Source.
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

// Changed implements app.Source.
func (s *source) Changed() bool { return s.watch && s.Watch.Changed() }

// serve runs a sidecar until ctx ends, its terminal hangs up or a part of it fails. l is who
// has launched it; nil for nobody.
func serve(ctx context.Context, cfg *config.Config, hangups *hangups, options app.Options, l *launch) error {
	sidecar, err := app.Start(ctx, cfg, options)
	if err != nil {
		return fail(startCode(err), err)
	}
	l.serve(sidecar, options.Version)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go hangups.heed(ctx, sidecar.Reload, cancel)
	var errs []error
	if err := sidecar.Wait(ctx); err != nil {
		errs = append(errs, fail(exitUnavailable, err))
	}
	l.shut() // before it drains: nobody is sent to one that takes no calls
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
