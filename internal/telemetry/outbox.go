package telemetry

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/trace"
)

// defaultRoom is how many spans, or log records, wait to be sent when the standard
// variables do not say otherwise; it is their own default.
const defaultCapacity = 2048

// outbox bounds what of a signal waits for a collector, and counts what became of the
// rest. The SDK has a bound of its own, but tells nobody what it drops; this one is never
// above it, so that nothing is dropped there.
type outbox struct {
	signal   string
	capacity int64
	// waiting are those that were taken and are neither sent nor given up.
	waiting                 atomic.Int64
	sent, queueFull, failed atomic.Int64
}

// newOutbox returns the outbox of a signal, whose room is in a standard variable.
func newOutbox(signal, variable string) *outbox {
	capacity, err := strconv.ParseInt(os.Getenv(variable), 10, 32)
	if err != nil || capacity < 1 {
		capacity = defaultCapacity
	}
	return &outbox{signal: signal, capacity: capacity}
}

// take reports whether there is room for one more. It never waits.
func (o *outbox) take() bool {
	if o.waiting.Add(1) > o.capacity {
		o.waiting.Add(-1)
		o.queueFull.Add(1)
		return false
	}
	return true
}

// settle says that some were sent, or why not.
func (o *outbox) settle(n int, err error) {
	if err != nil {
		o.failed.Add(int64(n))
	} else {
		o.sent.Add(int64(n))
	}
	o.waiting.Add(-int64(n))
}

// spans are the two ends of an outbox of spans: what takes them, and what they go to.
type (
	spansIn struct {
		trace.SpanProcessor
		box *outbox
	}
	spansOut struct {
		trace.SpanExporter
		box *outbox
	}
)

// batchSpans sends spans in batches, by way of the outbox.
func batchSpans(exporter trace.SpanExporter, box *outbox) trace.SpanProcessor {
	return spansIn{trace.NewBatchSpanProcessor(spansOut{exporter, box}, trace.WithMaxQueueSize(int(box.capacity))), box}
}

// OnEnd implements trace.SpanProcessor. A span that is recorded and not sampled is
// nobody's to send.
func (s spansIn) OnEnd(span trace.ReadOnlySpan) {
	if span.SpanContext().IsSampled() && s.box.take() {
		s.SpanProcessor.OnEnd(span)
	}
}

// ExportSpans implements trace.SpanExporter.
func (s spansOut) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	err := s.SpanExporter.ExportSpans(ctx, spans)
	s.box.settle(len(spans), err)
	return err
}

// The same for log records.
type (
	recordsIn struct {
		sdklog.Processor
		box *outbox
	}
	recordsOut struct {
		sdklog.Exporter
		box *outbox
	}
)

func batchRecords(exporter sdklog.Exporter, box *outbox) sdklog.Processor {
	return recordsIn{sdklog.NewBatchProcessor(recordsOut{exporter, box}, sdklog.WithMaxQueueSize(int(box.capacity))), box}
}

// OnEmit implements sdklog.Processor.
func (r recordsIn) OnEmit(ctx context.Context, record *sdklog.Record) error {
	if !r.box.take() {
		return nil
	}
	return r.Processor.OnEmit(ctx, record)
}

// Export implements sdklog.Exporter.
func (r recordsOut) Export(ctx context.Context, records []sdklog.Record) error {
	err := r.Exporter.Export(ctx, records)
	r.box.settle(len(records), err)
	return err
}

// observeOutboxes registers what the metrics say of them.
func observeOutboxes(meter metric.Meter, boxes []*outbox) error {
	records, err := meter.Int64ObservableCounter("sidecall.telemetry.records",
		metric.WithDescription("Spans and log records for the collector, and what became of them: sent, failed, or no room to wait (queue_full)."))
	if err != nil {
		return err
	}
	waiting, err := meter.Int64ObservableGauge("sidecall.telemetry.waiting",
		metric.WithDescription("Spans and log records that wait to be sent, or are being sent."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, box := range boxes {
			signal := attribute.String("sidecall.signal", box.signal)
			o.ObserveInt64(waiting, box.waiting.Load(), metric.WithAttributes(signal))
			for _, outcome := range []struct {
				name  string
				count *atomic.Int64
			}{{"sent", &box.sent}, {"queue_full", &box.queueFull}, {"failed", &box.failed}} {
				o.ObserveInt64(records, outcome.count.Load(), metric.WithAttributes(signal, attribute.String("sidecall.outcome", outcome.name)))
			}
		}
		return nil
	}, records, waiting)
	return err
}

// tellLost logs, at the end, what was not sent. What is still on its way then will not be.
func (o *outbox) tellLost(logger *slog.Logger) {
	full, failed, waiting := o.queueFull.Load(), o.failed.Load(), o.waiting.Load()
	if full+failed+waiting > 0 {
		logger.Warn("telemetry was lost", "signal", o.signal, "sent", o.sent.Load(), "queue_full", full, "failed", failed, "unsent", waiting)
	}
}
