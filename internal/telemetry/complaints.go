package telemetry

import (
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// complaintEvery is how often the exporters are heard: one whose collector refuses
// connections has something to say with every batch, many times a second.
const complaintEvery = 10 * time.Second

// complaints logs errors of the exporters: they are never raised, since telemetry must
// not fail a call.
type complaints struct {
	logger *slog.Logger
	seldom rate.Sometimes
	unsaid atomic.Int64
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	c.unsaid.Add(1)
	c.seldom.Do(func() {
		c.logger.Warn("telemetry", "error", err, "errors", c.unsaid.Swap(0))
	})
}
