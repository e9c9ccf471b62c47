package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/sidecall/sidecall/internal/tool"
)

// durationBuckets are those that the GenAI conventions advise for operation
// durations, in seconds, with finer ones below 10 ms for a local sidecar.
var durationBuckets = []float64{
	.001, .0025, .005, .01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
}

// executeTool is what samplers are to know when a span begins.
var executeTool = trace.WithAttributes(attribute.String("gen_ai.operation.name", "execute_tool"))

// maxDescription bounds, in characters, what a span has of a tool's description: it is
// the same for every call, and a server may say as much as it likes.
const maxDescription = 200

// Recorder records calls. It is safe for concurrent use.
type Recorder struct {
	tracer trace.Tracer
	// tracing is false when spans go nowhere: none is then made, and the
	// caller's trace context passes through as it came.
	tracing bool
	logger  *slog.Logger

	duration metric.Float64Histogram
	calls    metric.Int64Counter
	attempts metric.Int64Counter
	inFlight atomic.Int64
	resolved metric.Int64Counter
	signals  *signals
	meter    metric.Meter

	// attributeSets caches metric attributes: one entry per tool and outcome,
	// so it is bounded by the registry.
	attributeSets sync.Map // setKey → metric.MeasurementOption
}

type setKey struct{ tool, outcome, code string }

// NewRecorder returns a recorder that makes spans and metrics by these.
func NewRecorder(tracer trace.Tracer, meter metric.Meter, logger *slog.Logger) (*Recorder, error) {
	_, off := tracer.(noop.Tracer)
	r := &Recorder{tracer: tracer, tracing: !off, meter: meter, logger: logger}
	var err error
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	var e error
	r.duration, e = meter.Float64Histogram("gen_ai.execute_tool.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from a call's arrival to its result."),
		metric.WithExplicitBucketBoundaries(durationBuckets...))
	keep(e)
	r.calls, e = meter.Int64Counter("sidecall.calls",
		metric.WithDescription("Calls by tool, outcome and code."))
	keep(e)
	r.attempts, e = meter.Int64Counter("sidecall.attempts",
		metric.WithDescription("Attempts at backends, by tool, outcome and code of the attempt."))
	keep(e)
	_, e = meter.Int64ObservableUpDownCounter("sidecall.calls.in_flight",
		metric.WithDescription("Calls that have arrived and have no result yet."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(r.inFlight.Load())
			return nil
		}))
	keep(e)
	r.resolved, e = meter.Int64Counter("sidecall.resolutions",
		metric.WithDescription("Calls of unknown outcome that were settled, by an operator or a verification, and as what."))
	keep(e)
	r.signals, e = newSignals(meter, logger)
	keep(e)
	return r, err
}

// Call is one call being recorded. It is used by one goroutine at a time.
type Call struct {
	recorder *Recorder
	span     trace.Span
	start    time.Time
	info     CallInfo
	// name stands for the tool in metrics and span names.
	name string
	// verifies: the attempt is not the call's own; see StartVerification.
	verifies bool
}

// Panicked writes down a panic outside of any call's own guard.
func (r *Recorder) Panicked(p any, stack []byte) {
	r.logger.Error("panic", slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(stack)))
}

// StartCall opens the span of a call. The context carries it to attempts.
func (r *Recorder) StartCall(ctx context.Context, info CallInfo, start time.Time) (context.Context, Call) {
	name := info.Tool
	if !info.Registered {
		name = unknownToolName
	}
	r.inFlight.Add(1)
	call := Call{recorder: r, info: info, start: start, name: name}
	if !r.tracing {
		call.span = trace.SpanFromContext(ctx) // the caller's: its ids go to the log, and on
		return ctx, call
	}
	ctx, span := r.tracer.Start(ctx, "execute_tool "+name, executeTool,
		trace.WithSpanKind(trace.SpanKindInternal), trace.WithTimestamp(start))
	call.span = span
	if span.IsRecording() {
		call.span.SetAttributes(
			attribute.String("gen_ai.tool.name", info.Tool),
			attribute.String("gen_ai.tool.type", "function"),
			attribute.String("gen_ai.tool.call.id", info.ID))
		if info.Conversation != "" {
			call.span.SetAttributes(attribute.String("gen_ai.conversation.id", info.Conversation))
		}
		if info.Description != "" {
			call.span.SetAttributes(attribute.String("gen_ai.tool.description", tool.Shorten(info.Description, maxDescription)))
		}
		for k, v := range info.Labels {
			call.span.SetAttributes(attribute.String("sidecall.label."+k, v))
		}
	}
	return ctx, call
}

// End closes the span, records the metrics and writes the log line.
func (c *Call) End(ctx context.Context, end CallEnd) {
	r := c.recorder
	elapsed := time.Since(c.start)
	set := r.set(c.name, end.Outcome, end.Code)
	r.inFlight.Add(-1)
	r.calls.Add(ctx, 1, set)
	r.duration.Record(ctx, elapsed.Seconds(), set)
	r.signals.called(ctx, c, &end, c.start.Add(elapsed))
	if r.tracing && c.span.IsRecording() {
		c.span.SetAttributes(
			attribute.String("sidecall.outcome", end.Outcome),
			attribute.Int("sidecall.attempts", end.Attempts),
			attribute.Bool("sidecall.replayed", end.Replayed))
		if origin := spanOf(end.Origin); origin.IsValid() {
			c.span.AddLink(trace.Link{SpanContext: origin})
		}
		if end.Code != "" {
			c.span.SetAttributes(attribute.String("error.type", string(end.Code)))
			c.span.SetStatus(codes.Error, string(end.Code))
		}
	}
	if r.tracing {
		c.span.End()
	}
	c.log(ctx, end, elapsed)
}

func (c *Call) log(ctx context.Context, end CallEnd, elapsed time.Duration) {
	level := slog.LevelInfo
	if end.Code == tool.CodeInternal {
		level = slog.LevelError
	}
	if !c.recorder.logger.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 16)
	attrs = append(attrs,
		slog.String("conversation", c.info.Conversation),
		slog.String("turn", c.info.Turn),
		slog.String("tool_use_id", c.info.ID),
		slog.String("tool", c.info.Tool),
		slog.String("args", end.Shape),
		slog.String("outcome", end.Outcome),
		slog.Int("attempts", end.Attempts),
		slog.Float64("latency_ms", float64(elapsed.Microseconds())/1000))
	if c.info.Prompt != "" {
		attrs = append(attrs, slog.String("prompt", c.info.Prompt))
	}
	if end.Code != "" {
		attrs = append(attrs, slog.String("code", string(end.Code)))
	}
	if end.Rule != "" {
		attrs = append(attrs, slog.String("rule", end.Rule))
	}
	if !end.Recorded {
		attrs = append(attrs, slog.Bool("recorded", false))
	}
	if end.CallerLeft {
		attrs = append(attrs, slog.Bool("caller_left", true))
	}
	if len(end.Notes) > 0 {
		attrs = append(attrs, slog.Any("notes", end.Notes))
	}
	if len(c.info.Labels) > 0 {
		attrs = append(attrs, slog.Any("labels", c.info.Labels))
	}
	if end.Err != nil {
		attrs = append(attrs, slog.String("error", end.Err.Error()))
	}
	if end.Stack != "" {
		attrs = append(attrs, slog.String("stack", end.Stack))
	}
	if span := c.span.SpanContext(); span.IsValid() {
		attrs = append(attrs, slog.String("trace_id", span.TraceID().String()))
	}
	line := slog.NewRecord(time.Now(), level, "call", 0) // LogAttrs would look up its caller, which nobody is told
	line.AddAttrs(attrs...)
	_ = c.recorder.logger.Handler().Handle(ctx, line) // as a Logger does
}

// StartAttempt opens the child span of one attempt; end closes it.
func (c *Call) StartAttempt(ctx context.Context, backend string, n int) (context.Context, func(*tool.Failure)) {
	r := c.recorder
	if !r.tracing {
		return ctx, c.countAttempt
	}
	ctx, span := r.tracer.Start(ctx, "attempt", trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("gen_ai.tool.name", c.name),
			attribute.String("sidecall.backend", backend),
			attribute.Int("sidecall.attempt", n))
		if c.verifies {
			span.SetName("verification")
			span.SetAttributes(attribute.String("sidecall.attempt.kind", "verification"))
		}
	}
	return ctx, func(failure *tool.Failure) {
		if failure != nil && span.IsRecording() {
			span.SetAttributes(
				attribute.String("error.type", errorType(failure)),
				attribute.String("sidecall.evidence", failure.Evidence.String()))
			span.SetStatus(codes.Error, string(failure.Code))
		}
		c.countAttempt(failure)
		span.End()
	}
}

// BlockedBy says on the span of the call which breaker kept an attempt from being made. Of a
// verification that is no word about the call.
func (c *Call) BlockedBy(breaker string) {
	if c.recorder.tracing && !c.verifies && c.span.IsRecording() {
		c.span.SetAttributes(attribute.String("sidecall.breaker", breaker))
	}
}

// countAttempt counts one attempt by what came of it.
func (c *Call) countAttempt(failure *tool.Failure) {
	outcome, code := "ok", tool.Code("")
	if failure != nil {
		outcome, code = failure.Evidence.String(), failure.Code
	}
	c.recorder.attempts.Add(context.Background(), 1, c.recorder.set(c.name, outcome, code))
}

func errorType(f *tool.Failure) string {
	if f.ErrorType != "" {
		return f.ErrorType
	}
	return string(f.Code)
}

func (r *Recorder) set(toolName, outcome string, code tool.Code) metric.MeasurementOption {
	key := setKey{toolName, outcome, string(code)}
	if set, ok := r.attributeSets.Load(key); ok {
		return set.(metric.MeasurementOption)
	}
	attrs := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.name", toolName),
		attribute.String("sidecall.outcome", outcome),
	}
	if code != "" {
		attrs = append(attrs, attribute.String("error.type", string(code)))
	}
	set := metric.WithAttributeSet(attribute.NewSet(attrs...))
	r.attributeSets.Store(key, set)
	return set
}

// Gauge registers a value that is read when metrics are collected, such as the
// state of a breaker. observe calls report once per labelled value.
func (r *Recorder) Gauge(name, description string, observe func(report func(value int64, key, label string))) error {
	gauge, err := r.meter.Int64ObservableGauge(name, metric.WithDescription(description))
	if err != nil {
		return err
	}
	_, err = r.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		observe(func(value int64, key, label string) {
			o.ObserveInt64(gauge, value, metric.WithAttributes(attribute.String(key, label)))
		})
		return nil
	}, gauge)
	return err
}

// Counter registers a total that is read when metrics are collected.
func (r *Recorder) Counter(name, description string, total func() int64) error {
	_, err := r.meter.Int64ObservableCounter(name, metric.WithDescription(description),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(total())
			return nil
		}))
	return err
}

// spanOf is the span that a Traceparent names; one that is not valid where it names none.
func spanOf(parent string) trace.SpanContext {
	if parent == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceparent: parent})
	return trace.SpanContextFromContext(ctx)
}

// traceparent is the field of W3C Trace Context. The contract has it in messages, whatever
// OTEL_PROPAGATORS says of headers.
const traceparent = "traceparent"
