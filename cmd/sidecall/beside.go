package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"go.yaml.in/yaml/v4"

	"github.com/sidecall/sidecall/internal/app"
	"github.com/sidecall/sidecall/internal/config"
)

// startBeside starts a sidecar that looks after what wrappers record in a directory, until stop, and
// returns where it is asked. Wrappers that run go on.
func startBeside(ctx context.Context, state string) (addr string, stop func(), err error) {
	file := filepath.Join(state, wrapStore)
	if _, err := os.Stat(file); err != nil {
		return "", nil, fmt.Errorf("no wrapper has recorded anything there: %w", err)
	}
	// An answer that nobody reads any more is an error then, and not the end of the process.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	dir, err := os.MkdirTemp("", "sidecall")
	if err != nil {
		return "", nil, err
	}
	addr = "unix://" + filepath.Join(dir, "o.sock")
	text, err := yaml.Marshal(map[string]any{
		"listen": []string{"unix://" + filepath.Join(dir, "a.sock")}, "admin": "off", "operator": addr,
		"identity": map[string]any{"require": []string{}}, "store": map[string]any{"embedded": map[string]any{"path": file}},
	})
	if err == nil {
		var cfg *config.Config
		if cfg, err = config.Parse("sidecall --state", text, config.System()); err == nil {
			return besideOf(ctx, cfg, addr, dir)
		}
	}
	return "", nil, errors.Join(err, os.RemoveAll(dir))
}

func besideOf(ctx context.Context, cfg *config.Config, addr, dir string) (string, func(), error) {
	sidecar, err := app.StartBeside(ctx, cfg, app.Options{Log: slog.DiscardHandler, Version: buildVersion().Version})
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return addr, func() {
		_, _ = sidecar.Stop(context.WithoutCancel(ctx)), os.RemoveAll(dir) // it was asked what it was asked
	}, nil
}
