package app

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/redact"
)

// redacting returns a logger for the words of a backend, which may quote what it
// was entrusted with.
func redacting(logger *slog.Logger, secrets *liveSecrets) *slog.Logger {
	return slog.New(redactor{logger.Handler(), secrets, math.MinInt})
}

// masking returns a logger that shows in warnings and errors the references of a config
// in the place of what they stand for.
func masking(logger *slog.Logger, cfg *config.Config, mask mask) *slog.Logger {
	if !cfg.Refers() {
		return logger
	}
	return slog.New(redactor{logger.Handler(), mask, slog.LevelWarn})
}

// mask has config.Mask or config.MaskAt as a replacer.
type mask func(text string) string

// Replace returns a text with references in it.
func (m mask) Replace(text string) string { return m(text) }

// maskAt is the mask of what is said of a part of a config.
func maskAt(cfg *config.Config, path string) mask {
	return func(text string) string { return cfg.MaskAt(path, text) }
}

// maskError is an error of a config as a whole. What it wraps stays known; its words are
// without what references stand for.
func maskError(cfg *config.Config, err error) error {
	if err == nil || !cfg.Refers() {
		return err
	}
	return maskedError{err, cfg.MaskAt("", err.Error())}
}

type maskedError struct {
	error
	words string
}

func (e maskedError) Error() string { return e.words }

func (e maskedError) Unwrap() error { return e.error }

// liveSecrets hides the secrets of the present: those that a backend was entrusted with, and
// others, may be replaced while it runs.
type liveSecrets struct{ atomic.Pointer[redact.Set] }

func liveFrom(secrets *redact.Set) *liveSecrets {
	v := new(liveSecrets)
	v.Store(secrets)
	return v
}

// Replace returns a text without them.
func (v *liveSecrets) Replace(text string) string { return v.Load().Replace(text) }

// redactor takes secrets out of what is logged: messages and the values of
// attributes. It leaves their names alone.
type redactor struct {
	slog.Handler
	secrets interface{ Replace(text string) string }
	// least is the level from which it does.
	least slog.Level
}

// Handle implements slog.Handler.
func (r redactor) Handle(ctx context.Context, record slog.Record) error {
	if record.Level < r.least {
		return r.Handler.Handle(ctx, record)
	}
	clean := slog.NewRecord(record.Time, record.Level, r.secrets.Replace(record.Message), record.PC)
	record.Attrs(func(attr slog.Attr) bool {
		clean.AddAttrs(r.clean(attr))
		return true
	})
	return r.Handler.Handle(ctx, clean)
}

// WithAttrs implements slog.Handler.
func (r redactor) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, attr := range attrs {
		clean[i] = r.clean(attr)
	}
	return redactor{r.Handler.WithAttrs(clean), r.secrets, r.least}
}

// WithGroup implements slog.Handler.
func (r redactor) WithGroup(name string) slog.Handler {
	return redactor{r.Handler.WithGroup(name), r.secrets, r.least}
}

func (r redactor) clean(attr slog.Attr) slog.Attr {
	value := attr.Value.Resolve()
	switch value.Kind() {
	case slog.KindString:
		return slog.String(attr.Key, r.secrets.Replace(value.String()))
	case slog.KindGroup:
		group := make([]slog.Attr, 0, len(value.Group()))
		for _, member := range value.Group() {
			group = append(group, r.clean(member))
		}
		return slog.Attr{Key: attr.Key, Value: slog.GroupValue(group...)}
	case slog.KindAny:
		if text := fmt.Sprint(value.Any()); r.secrets.Replace(text) != text {
			return slog.String(attr.Key, r.secrets.Replace(text))
		}
		return attr
	default:
		return attr
	}
}
