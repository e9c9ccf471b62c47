package telemetry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"
)

// stuck is an exporter that sends nothing until it is let go, and then what it is told.
type stuck struct {
	letGo  chan struct{}
	answer error
	got    int
}

func (s *stuck) wait(n int) error {
	<-s.letGo
	s.got += n
	return s.answer
}

func (s *stuck) Shutdown(context.Context) error   { return nil }
func (s *stuck) ForceFlush(context.Context) error { return nil }

type (
	stuckSpans   struct{ *stuck }
	stuckRecords struct{ *stuck }
)

func (s stuckSpans) ExportSpans(_ context.Context, spans []trace.ReadOnlySpan) error {
	return s.wait(len(spans))
}

func (s stuckRecords) Export(_ context.Context, records []sdklog.Record) error {
	return s.wait(len(records))
}

// While an exporter is stuck nobody waits for it, its outbox is full and no more than
// that, and every span and record is counted once.
func TestAnOutboxOfAStuckExporter(t *testing.T) {
	const room, made = 10, 25
	refused := errors.New("refused")
	for name, answer := range map[string]error{"sent": nil, "failed": refused} {
		for signal, emit := range map[string]func(*stuck, *outbox) (emit func(), shutdown func(context.Context) error){
			"traces": func(s *stuck, box *outbox) (func(), func(context.Context) error) {
				provider := trace.NewTracerProvider(trace.WithSpanProcessor(batchSpans(stuckSpans{s}, box)))
				return func() {
					_, span := provider.Tracer("t").Start(t.Context(), "span")
					span.End()
				}, provider.Shutdown
			},
			"logs": func(s *stuck, box *outbox) (func(), func(context.Context) error) {
				provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(batchRecords(stuckRecords{s}, box)))
				return func() { provider.Logger("t").Emit(t.Context(), log.Record{}) }, provider.Shutdown
			},
		} {
			t.Run(signal+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					exporter := &stuck{letGo: make(chan struct{}), answer: answer}
					box := &outbox{signal: signal, capacity: room}
					one, shutdown := emit(exporter, box)
					for range made {
						one()
					}
					synctest.Wait()
					if waiting, full := box.waiting.Load(), box.queueFull.Load(); waiting != room || full != made-room {
						t.Errorf("%d wait and %d had no room, want %d and %d", waiting, full, room, made-room)
					}
					close(exporter.letGo)
					if err := shutdown(t.Context()); err != nil && !errors.Is(err, answer) {
						t.Errorf("the end: %v", err)
					}
					sent, failed := int64(room), int64(0)
					if answer != nil {
						sent, failed = 0, room
					}
					if box.sent.Load() != sent || box.failed.Load() != failed || box.waiting.Load() != 0 || exporter.got != room {
						t.Errorf("%d sent, %d failed, %d wait, want %d, %d, 0; the exporter got %d", box.sent.Load(), box.failed.Load(), box.waiting.Load(), sent, failed, exporter.got)
					}
				})
			})
		}
	}
}

// The room is that of the standard variables, and theirs where they make no sense.
func TestTheRoomOfAnOutbox(t *testing.T) {
	for said, want := range map[string]int64{"": 2048, "7": 7, "0": 2048, "-1": 2048, "many": 2048, "99999999999": 2048} {
		t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", said)
		if got := newOutbox("traces", "OTEL_BSP_MAX_QUEUE_SIZE").capacity; got != want {
			t.Errorf("OTEL_BSP_MAX_QUEUE_SIZE=%s: room for %d, want %d", said, got, want)
		}
	}
}

// What exporters complain of is logged once in a while, with how often it was, and never
// sent: it would be one more thing to send.
func TestComplaintsAreSeldomAndLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		c := &complaints{logger: slog.New(slog.NewTextHandler(&text, nil)), seldom: rate.Sometimes{Interval: complaintEvery}}
		for range 5 {
			c.Handle(errors.New("refused"))
		}
		if got := text.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "errors=1") {
			t.Errorf("five at once are\n%s", got)
		}
		text.Reset()
		time.Sleep(complaintEvery) // of the bubble
		c.Handle(errors.New("refused"))
		if got := text.String(); !strings.Contains(got, "error=refused errors=5") {
			t.Errorf("one later is\n%s", got)
		}
	})
}

// A process that ends is told once what was lost, in its own log.
func TestTheEndTellsWhatWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		exporter := &stuck{letGo: make(chan struct{})}
		box := &outbox{signal: "logs", capacity: 2}
		provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(batchRecords(stuckRecords{exporter}, box)))
		for range 3 {
			provider.Logger("t").Emit(t.Context(), log.Record{})
		}
		meters := metric.NewMeterProvider()
		telemetry := &Telemetry{
			local: slog.New(slog.NewTextHandler(&text, nil)), outbox: []*outbox{box},
			senders: []func(context.Context) error{provider.Shutdown, meters.Shutdown},
		}
		ctx, cancel := context.WithTimeout(t.Context(), complaintEvery)
		defer cancel()
		if err := telemetry.Close(ctx); err != nil {
			t.Errorf("what could not be sent is an error of the process: %v", err)
		}
		if got := text.String(); strings.Count(got, "telemetry was lost") != 1 || !strings.Contains(got, "signal=logs sent=0 queue_full=1 failed=0 unsent=2") {
			t.Errorf("the log says\n%s", got)
		}
		close(exporter.letGo)
	})
}
