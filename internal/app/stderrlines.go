package app

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// lastLines is how many lines of a server are kept, blank ones and the frames of
// Node's stacks not counted: they say why it ended, or what it waits for.
const lastLines = 6

// stderrLines is a log handler that keeps what servers write beside the protocol, and
// nothing else: it is for who asks once and logs nothing.
type stderrLines struct {
	backend string
	kept    *keptLines
}

// keptLines are the last lines of each server, by its backend.
type keptLines struct {
	mu sync.Mutex
	of map[string][]string
}

func newStderrLines() stderrLines {
	return stderrLines{kept: &keptLines{of: make(map[string][]string)}}
}

// from returns the last lines of a backend as one, empty when it wrote none.
func (h stderrLines) from(backend string) string {
	h.kept.mu.Lock()
	defer h.kept.mu.Unlock()
	return strings.Join(h.kept.of[backend], " | ")
}

// Enabled implements slog.Handler.
func (stderrLines) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler. Whatever holds a line of a server has it as the
// attribute line.
func (h stderrLines) Handle(_ context.Context, record slog.Record) error {
	record.Attrs(func(attr slog.Attr) bool {
		line := strings.TrimSpace(attr.Value.String())
		if attr.Key != "line" || line == "" || strings.HasPrefix(line, "at ") {
			return true
		}
		h.kept.mu.Lock()
		defer h.kept.mu.Unlock()
		lines := h.kept.of[h.backend]
		h.kept.of[h.backend] = append(slices.Clone(lines[max(0, len(lines)-lastLines+1):]), line)
		return true
	})
	return nil
}

// WithAttrs implements slog.Handler.
func (h stderrLines) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, attr := range attrs {
		if attr.Key == "backend" {
			h.backend = attr.Value.String()
		}
	}
	return h
}

// WithGroup implements slog.Handler: nobody here groups.
func (h stderrLines) WithGroup(string) slog.Handler { return h }
