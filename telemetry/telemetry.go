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
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

const scope = "github.com/sidecall/sidecall"

// Telemetry owns the exporters. Close flushes and ends them.
type Telemetry struct {
	*Recorder

	// Logger writes one JSON object per line, and to OTLP when that is on.
	Logger *slog.Logger
	// Metrics serves /metrics in the Prometheus text format.
	Metrics http.Handler

	shutdown []func(context.Context) error
}

// Start sets telemetry up. Metrics are always served on /metrics. Traces,
// metrics and logs go out over OTLP when the standard OTEL_* environment
// variables ask for it (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_EXPORTER, ...);
// without them nothing is sent anywhere. log receives the log lines.
func Start(ctx context.Context, version string, log slog.Handler) (*Telemetry, error) {
	t := &Telemetry{Logger: slog.New(log)}
	// Errors of the exporters themselves are logged, never raised: telemetry
	// must not fail a call.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		t.Logger.Warn("telemetry", "error", err)
	}))
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(
		propagation.TraceContext{}, propagation.Baggage{}))

	res, err := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", "sidecall"),
			attribute.String("service.version", version)),
		resource.WithFromEnv(), // OTEL_SERVICE_NAME and friends win
		resource.WithTelemetrySDK())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
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
		provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(res))
		t.shutdown = append(t.shutdown, provider.Shutdown)
		tracers = provider
	}
	if exports("LOGS") {
		exporter, err := autoexport.NewLogExporter(ctx)
		if err != nil {
			return fmt.Errorf("log exporter: %w", err)
		}
		provider := sdklog.NewLoggerProvider(
			sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter)), sdklog.WithResource(res))
		t.shutdown = append(t.shutdown, provider.Shutdown)
		t.Logger = slog.New(slog.NewMultiHandler(log,
			otelslog.NewHandler(scope, otelslog.WithLoggerProvider(provider))))
	}
	if t.Recorder, err = newRecorder(tracers.Tracer(scope), meters.Meter(scope), t.Logger); err != nil {
		return err
	}
	t.shutdown = append(t.shutdown, t.Recorder.signals.prompts.keep())
	return nil
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
	t.shutdown = append(t.shutdown, provider.Shutdown)
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

// Close flushes and ends the exporters, at most until ctx ends.
func (t *Telemetry) Close(ctx context.Context) error {
	var errs []error
	for _, end := range slices.Backward(t.shutdown) {
		errs = append(errs, end(ctx))
	}
	t.shutdown = nil
	return errors.Join(errs...)
}
