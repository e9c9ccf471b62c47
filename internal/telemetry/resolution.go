package telemetry

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/sidecall/sidecall/internal/tool"
)

// Verification is a read-only tool being asked what became of a call of
// another tool. It is used by one goroutine.
type Verification struct {
	// Call is what the attempt is recorded with: a span of its own below that
	// of ctx, and the metrics of the tool that is asked.
	Call Call

	start time.Time
}

// VerificationInfo says who is asked about what.
type VerificationInfo struct {
	// With is the tool that is asked; Tool and CallID are of the call in question.
	With, Tool string
	tool.CallID
}

// StartVerification begins to record a verification. It is no call: it counts
// as an attempt, and not among the calls.
func (r *Recorder) StartVerification(ctx context.Context, info VerificationInfo) Verification {
	start := time.Now()
	return Verification{start: start, Call: Call{
		recorder: r, span: trace.SpanFromContext(ctx), start: start, name: info.With, verifies: true,
		info: CallInfo{Tool: info.Tool, Registered: true, CallID: info.CallID},
	}}
}

// End writes the log line of a verification. why is for the log only; nil when
// there is nothing to say.
func (v *Verification) End(ctx context.Context, verdict string, why error) {
	c := &v.Call
	attrs := []slog.Attr{
		slog.String("conversation", c.info.Conversation),
		slog.String("turn", c.info.Turn),
		slog.String("tool_use_id", c.info.ID),
		slog.String("tool", c.info.Tool),
		slog.String("verified_with", c.name),
		slog.String("verdict", verdict),
		slog.Float64("latency_ms", float64(time.Since(v.start).Microseconds())/1000),
	}
	if why != nil {
		attrs = append(attrs, slog.String("why", why.Error()))
	}
	if span := c.span.SpanContext(); span.IsValid() {
		attrs = append(attrs, slog.String("trace_id", span.TraceID().String()))
	}
	c.recorder.logger.LogAttrs(ctx, slog.LevelInfo, "verification", attrs...)
}

// Resolution is a call of unknown outcome that somebody has settled.
type Resolution struct {
	// By is a user of the system, or verification; Claimed the name that the user
	// gave, which nobody has checked, where it is another.
	By, Claimed string
	// Kind is operator or verification.
	Kind   string
	Reason string
	// VerifiedWith is the tool that was asked; empty when none was.
	VerifiedWith string
	Tool         string
	tool.CallID

	// From and To are states.
	From, To string
	Epoch    int64
	// Unconfirmed is why the store did not say that it has the resolution; nil
	// when it has.
	Unconfirmed error
}

// Resolved counts a resolution and writes it down. What a person has decided is
// logged as a warning: it stays where the lines of calls are left out.
func (r *Recorder) Resolved(ctx context.Context, done Resolution) {
	if done.Unconfirmed == nil {
		r.resolved.Add(ctx, 1, metric.WithAttributes(
			attribute.String("by", done.Kind), attribute.String("state", done.To)))
	}
	level := slog.LevelWarn
	if done.Kind == "verification" {
		level = slog.LevelInfo
	}
	attrs := []slog.Attr{
		slog.String("conversation", done.Conversation),
		slog.String("turn", done.Turn),
		slog.String("tool_use_id", done.ID),
		slog.String("tool", done.Tool),
		slog.String("from", done.From),
		slog.String("to", done.To),
		slog.Int64("epoch", done.Epoch),
		slog.String("by", done.By),
		slog.String("reason", done.Reason),
	}
	if done.Claimed != "" {
		attrs = append(attrs, slog.String("claimed_by", done.Claimed))
	}
	if done.Unconfirmed != nil {
		attrs = append(attrs, slog.String("unconfirmed", done.Unconfirmed.Error()))
	}
	if done.VerifiedWith != "" {
		attrs = append(attrs, slog.String("verified_with", done.VerifiedWith))
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		attrs = append(attrs, slog.String("trace_id", span.TraceID().String()))
	}
	r.logger.LogAttrs(ctx, level, "resolve", attrs...)
}
