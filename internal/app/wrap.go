package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/mcptool"
	"github.com/sidecall/sidecall/internal/backend/process"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/observed"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/redact"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/store/shared"
	"github.com/sidecall/sidecall/internal/wrap"
)

const (
	// WrappedBackend is the backend of the config of a Wrapper that the server is.
	WrappedBackend = "server"
	// wrapPatience is how long calls in flight may take to end when the client has gone: clients
	// kill what has not ended in 4 s.
	wrapPatience = 2 * time.Second
	// wrapOpen bounds how long the store is waited for.
	wrapOpen = 20 * time.Second
)

// Wrapper stands in for an MCP server.
type Wrapper struct {
	// Config is that of the sidecar inside of it: its store is embedded, and shared with all who
	// have the same file; its one backend is WrappedBackend.
	Config *config.Config
	// Tenant is whose the records of the server are.
	Tenant string
	// Command runs the server, with the environment and the directory of this process. It is empty
	// where WrappedBackend has a url.
	Command []string
	// In and Out are the client's.
	In  io.Reader
	Out io.Writer
	// Observe, if not empty, is the file where calls are written down, which then pass as
	// everything else does. No store is opened.
	Observe string
}

// ErrNoProgram is that the command of a Wrapper names nothing that can be run, or its URL nothing that
// can be asked.
var ErrNoProgram = errors.New("the server cannot be run")

// Serve stands in until the client has gone, or ctx ends, which are no errors.
func (w Wrapper) Serve(ctx context.Context, options Options) error {
	hidden := secretsOf(entrustedMCP(w.Config.Backends[WrappedBackend])).set()
	log := redacting(masking(slog.New(options.Log), w.Config, w.Config.Mask), liveFrom(hidden))
	open, err := w.server(log, hidden)
	if err != nil {
		return err
	}
	made := wrap.Options{Name: WrappedBackend, Tenant: w.Tenant, Open: open, In: w.In, Out: w.Out, Log: log, Shown: w.Config.Defaults.MaxOutputChars}
	if w.Observe != "" {
		made.Observe = observed.To(w.Observe, log)
		defer func() { _ = made.Observe.Close() }() // each line was written at once
	}
	store, err := w.store(ctx, log)
	if err != nil {
		return err
	}
	relay := wrap.New(made)
	options.Brought = Brought{Store: store, Backends: map[string]backend.Backend{WrappedBackend: relay}}
	inner, err := StartInner(ctx, w.Config, options)
	if err != nil {
		return err
	}
	err = relay.Serve(ctx, inner, wrapPatience)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), wrapPatience)
	defer cancel()
	return errors.Join(err, inner.Stop(ending))
}

// server says how a life of the server begins.
func (w Wrapper) server(log *slog.Logger, hidden *redact.Set) (func(mcptool.Listener) (wrap.Link, error), error) {
	declared := w.Config.Backends[WrappedBackend].MCP
	if declared.URL.Reveal() == "" {
		spec := process.Spec{Argv: w.Command, Env: os.Environ()}
		if _, err := spec.Program(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoProgram, err)
		}
		return func(listener mcptool.Listener) (wrap.Link, error) {
			return mcptool.StartProcess(spec, wrap.MaxMessage, listener)
		}, nil
	}
	remote := mcptool.RemoteConfig{
		URL: declared.URL.Reveal(), Headers: config.RevealMap(declared.Headers), HTTPClient: mcpClient(declared.AllowPrivate),
		MaxMessage: wrap.MaxMessage, Logger: log,
		Mask: func(message []byte) []byte { return hidden.Bytes(output.WithoutSecrets(message, hidden)) }, // JSON still
	}
	if err := remote.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoProgram, err)
	}
	return func(listener mcptool.Listener) (wrap.Link, error) { return remote.Open(listener), nil }, nil
}

// StartBeside starts a sidecar that has what wrappers record, beside those that run, for who looks after
// them: its store is that of the config, shared.
func StartBeside(ctx context.Context, cfg *config.Config, options Options) (*Sidecar, error) {
	store, err := Wrapper{Config: cfg}.store(ctx, slog.New(options.Log))
	if err != nil {
		return nil, err
	}
	options.Brought.Store = store
	return Start(ctx, cfg, options)
}

// store is where the records of calls are kept, which a wrapper that observes has none of.
func (w Wrapper) store(ctx context.Context, log *slog.Logger) (dedupe.Store, error) {
	if w.Observe != "" {
		return embedded.InMemory(embedded.Options{}), nil
	}
	ctx, cancel := context.WithTimeout(ctx, wrapOpen)
	defer cancel()
	kept := w.Config.Store.Embedded
	return shared.Open(ctx, kept.Path.Reveal(), embedded.Options{MaxBytes: int64(kept.MaxBytes), Log: log})
}

// ReadReport says what a sidecar would have done of the calls that were written down in a file since
// an instant.
func ReadReport(file string, since time.Time) (observed.Report, error) {
	calls, broken, err := observed.Read(file, since)
	report := observed.Of(calls)
	report.Broken = broken
	return report, err
}
