package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/sidecall/sidecall/redact"
)

// redacting returns a logger for the words of a backend, which may quote what it
// was entrusted with.
func redacting(logger *slog.Logger, secrets *veil) *slog.Logger {
	return slog.New(redactor{logger.Handler(), secrets})
}

// veil hides the secrets of the present: those that a backend was entrusted with, and
// others, may be replaced while it runs.
type veil struct{ atomic.Pointer[redact.Set] }

func veiled(secrets *redact.Set) *veil {
	v := new(veil)
	v.Store(secrets)
	return v
}

// Replace returns a text without them.
func (v *veil) Replace(text string) string { return v.Load().Replace(text) }

// redactor takes secrets out of what is logged: messages and the values of
// attributes. It leaves their names alone.
type redactor struct {
	slog.Handler
	secrets *veil
}

// Handle implements slog.Handler.
func (r redactor) Handle(ctx context.Context, record slog.Record) error {
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
	return redactor{r.Handler.WithAttrs(clean), r.secrets}
}

// WithGroup implements slog.Handler.
func (r redactor) WithGroup(name string) slog.Handler {
	return redactor{r.Handler.WithGroup(name), r.secrets}
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
