package app

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/redact"
)

func TestRedacting(t *testing.T) {
	t.Parallel()
	const secret = "5ecret-0f3a9c"
	var log bytes.Buffer
	plain := slog.New(slog.NewJSONHandler(&log, nil))
	logger := redacting(plain, liveFrom(redact.New(secret)))
	logger.With("token", secret).WithGroup("g").Error("bad "+secret,
		"error", errors.New("refused: "+secret), "n", 7,
		slog.Group("deep", "line", "token="+secret, "list", []string{secret}))
	got := log.String()
	if strings.Contains(got, secret) || strings.Count(got, "(redacted)") != 5 {
		t.Errorf("want five redactions: %s", got)
	}
	if !strings.Contains(got, `"n":7`) || !strings.Contains(got, `"deep":{"line"`) {
		t.Errorf("the rest is lost: %s", got)
	}
	log.Reset()
	if redacting(plain, liveFrom(nil)).Error(secret); !strings.Contains(log.String(), secret) {
		t.Errorf("without secrets there is nothing to take out: %s", log.String())
	}
}
