// Package telemetry tells operators what happened: one span, one set of
// metrics and one structured log line per call, and one child span per attempt.
//
// Names follow the OpenTelemetry GenAI semantic conventions where they have
// one (execute_tool spans, gen_ai.execute_tool.duration); the rest is under
// sidecall.*. Neither arguments nor results are ever recorded, only the shape
// of the arguments. Tool names that a model made up never become metric
// attributes, so cardinality is bounded by the registry.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/contrib/propagators/autoprop"
	"go.opentelemetry.io/otel"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0" // the last that has gen_ai
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/time/rate"
)

const scope = "github.com/sidecall/sidecall"

// Telemetry owns the exporters. Close flushes and ends them.
type Telemetry struct {
	*Recorder

	// Logger writes one JSON object per line, and to OTLP when that is on.
	Logger *slog.Logger
	// Metrics serves /metrics in the Prometheus text format.
	Metrics http.Handler
	// Gatherer is what it serves.
	Gatherer prometheus.Gatherer

	// local writes to the process's own log alone: what is said there of the exporters
	// must not become something more for them to send.
	local   *slog.Logger
	outbox  []*outbox
	end     func(context.Context) error   // of what makes records by itself; nil before the start
	senders []func(context.Context) error // flush and end, each on its own
}

// Service says who sends the telemetry. The variables OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES win over it.
type Service struct {
	Version string
	// Instance is a name that no other sidecar has at the same time: at a collector
	// series of two with the same attributes would be one.
	Instance string
}

func (s Service) resource(ctx context.Context) (*resource.Resource, error) {
	res, err := resource.New(ctx,
		resource.WithAttributes(
			semconv.ServiceName("sidecall"),
			semconv.ServiceVersion(s.Version),
			semconv.ServiceInstanceID(s.Instance)),
		resource.WithFromEnv(),
		resource.WithTelemetrySDK())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return res, nil
}

// Start sets telemetry up. Metrics are always served on /metrics. Traces,
// metrics and logs go out over OTLP when the standard OTEL_* environment
// variables ask for it (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_EXPORTER, ...);
// without them nothing is sent anywhere. In which form a caller's trace comes in and
// goes on says OTEL_PROPAGATORS, also where no span is made: otel.GetTextMapPropagator
// is that from then on. log receives the log lines.
func Start(ctx context.Context, service Service, log slog.Handler) (*Telemetry, error) {
	t := &Telemetry{Logger: slog.New(log), local: slog.New(log)}
	otel.SetErrorHandler(&complaints{logger: t.local, seldom: rate.Sometimes{Interval: complaintEvery}})
	otel.SetLogger(logr.FromSlogHandler(log))
	otel.SetTextMapPropagator(autoprop.NewTextMapPropagator())
	checkVariables(t.local)

	res, err := service.resource(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.start(ctx, res, log); err != nil {
		return nil, errors.Join(err, t.Close(ctx))
	}
	return t, nil
}

func (t *Telemetry) start(ctx context.Context, res *resource.Resource, log slog.Handler) error {
	meters, err := t.startMetrics(ctx, res)
	if err != nil {
		return err
	}
	var tracers oteltrace.TracerProvider = noop.NewTracerProvider()
	if exports("TRACES") {
		exporter, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return fmt.Errorf("trace exporter: %w", err)
		}
		provider := trace.NewTracerProvider(trace.WithResource(res),
			trace.WithSpanProcessor(batchSpans(exporter, t.newOutbox("traces", "OTEL_BSP_MAX_QUEUE_SIZE"))))
		t.senders = append(t.senders, provider.Shutdown)
		tracers = provider
	}
	if exports("LOGS") {
		exporter, err := autoexport.NewLogExporter(ctx)
		if err != nil {
			return fmt.Errorf("log exporter: %w", err)
		}
		provider := sdklog.NewLoggerProvider(sdklog.WithResource(res),
			sdklog.WithProcessor(batchRecords(exporter, t.newOutbox("logs", "OTEL_BLRP_MAX_QUEUE_SIZE"))))
		t.senders = append(t.senders, provider.Shutdown)
		t.Logger = slog.New(slog.NewMultiHandler(log,
			otelslog.NewHandler(scope, otelslog.WithLoggerProvider(provider))))
	}
	meter := meters.Meter(scope)
	if len(t.outbox) > 0 {
		if err := observeOutboxes(meter, t.outbox); err != nil {
			return err
		}
	}
	if t.Recorder, err = NewRecorder(tracers.Tracer(scope, oteltrace.WithSchemaURL(semconv.SchemaURL)), meter, t.Logger); err != nil {
		return err
	}
	t.end = t.Recorder.signals.prompts.keep()
	return nil
}

func (t *Telemetry) newOutbox(signal, variable string) *outbox {
	box := newOutbox(signal, variable)
	t.outbox = append(t.outbox, box)
	return box
}

// overload are the metrics of Go's runtime, beside the usual ones, that tell a
// sidecar with too much to do: what is alive after a collection, and how long
// goroutines wait for a processor.
var overload = collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile("^/(gc/heap/live:bytes|sched/latencies:seconds)$")}

func (t *Telemetry) startMetrics(ctx context.Context, res *resource.Resource) (*metric.MeterProvider, error) {
	registry := prometheus.NewRegistry()
	if err := errors.Join(
		registry.Register(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(overload))),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	); err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	scrape, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	options := []metric.Option{metric.WithReader(scrape), metric.WithResource(res)}
	if exports("METRICS") {
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return nil, fmt.Errorf("metric exporter: %w", err)
		}
		options = append(options, metric.WithReader(reader))
	}
	provider := metric.NewMeterProvider(options...)
	t.senders = append(t.senders, provider.Shutdown)
	t.Gatherer = registry
	t.Metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
	return provider, nil
}

// exports reports whether the standard variables ask for a signal (TRACES,
// METRICS, LOGS) to be sent out. autoexport's own default is to send to
// localhost:4318, which would log errors wherever no collector runs.
func exports(signal string) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	if exporter := os.Getenv("OTEL_" + signal + "_EXPORTER"); exporter != "" {
		return exporter != "none"
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" ||
		os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

// Close flushes and ends the exporters, at most until ctx ends: one that waits for its
// collector takes no time from another. What they could not send is logged and no error,
// since nothing but telemetry is lost by it.
func (t *Telemetry) Close(ctx context.Context) error {
	var err error
	if t.end != nil {
		err = t.end(ctx)
		t.end = nil
	}
	var sending sync.WaitGroup
	for _, shutdown := range t.senders {
		sending.Go(func() {
			if err := shutdown(ctx); err != nil {
				t.local.Warn("telemetry", "error", err)
			}
		})
	}
	sending.Wait()
	for _, box := range t.outbox {
		box.tellLost(t.local)
	}
	t.senders, t.outbox = nil, nil
	return err
}
