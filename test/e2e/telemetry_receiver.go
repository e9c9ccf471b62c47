//go:build e2e

package e2e

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	logcollector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metriccollector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracecollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logpb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// receiver is an OTLP collector that keeps all it gets.
type receiver struct {
	Addr string

	mu      sync.Mutex
	spans   []*tracepb.Span
	metrics map[string]*metricpb.Metric // the latest of each name
	logs    []*logpb.LogRecord
	text    strings.Builder // of everything
}

func startReceiver(t *testing.T) *receiver {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{Addr: listener.Addr().String(), metrics: make(map[string]*metricpb.Metric)}
	server := grpc.NewServer()
	tracecollector.RegisterTraceServiceServer(server, traceReceiver{receiver: r})
	metriccollector.RegisterMetricsServiceServer(server, metricReceiver{receiver: r})
	logcollector.RegisterLogsServiceServer(server, logReceiver{receiver: r})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return r
}

// env makes a sidecar send everything to the receiver, and soon.
func (r *receiver) env(more ...string) []string {
	return append([]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + r.Addr, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
		"OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_BLRP_SCHEDULE_DELAY=50", "OTEL_METRIC_EXPORT_INTERVAL=100",
	}, more...)
}

func (r *receiver) keep(message proto.Message) {
	r.text.WriteString(prototext.Format(message))
}

type traceReceiver struct {
	tracecollector.UnimplementedTraceServiceServer
	*receiver
}

func (r traceReceiver) Export(_ context.Context, req *tracecollector.ExportTraceServiceRequest) (*tracecollector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(req)
	for _, resource := range req.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			r.spans = append(r.spans, scope.GetSpans()...)
		}
	}
	return &tracecollector.ExportTraceServiceResponse{}, nil
}

type metricReceiver struct {
	metriccollector.UnimplementedMetricsServiceServer
	*receiver
}

func (r metricReceiver) Export(_ context.Context, req *metriccollector.ExportMetricsServiceRequest) (*metriccollector.ExportMetricsServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(req)
	for _, resource := range req.GetResourceMetrics() {
		for _, scope := range resource.GetScopeMetrics() {
			for _, metric := range scope.GetMetrics() {
				r.receiver.metrics[metric.GetName()] = metric
			}
		}
	}
	return &metriccollector.ExportMetricsServiceResponse{}, nil
}

type logReceiver struct {
	logcollector.UnimplementedLogsServiceServer
	*receiver
}

func (r logReceiver) Export(_ context.Context, req *logcollector.ExportLogsServiceRequest) (*logcollector.ExportLogsServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(req)
	for _, resource := range req.GetResourceLogs() {
		for _, scope := range resource.GetScopeLogs() {
			r.logs = append(r.logs, scope.GetLogRecords()...)
		}
	}
	return &logcollector.ExportLogsServiceResponse{}, nil
}

// all is everything that has arrived, as text.
func (r *receiver) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// spansOf are the spans of a trace, in the order of their start.
func (r *receiver) spansOf(trace []byte) []*tracepb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []*tracepb.Span
	for _, span := range r.spans {
		if string(span.GetTraceId()) == string(trace) {
			found = append(found, span)
		}
	}
	slices.SortFunc(found, func(a, b *tracepb.Span) int {
		return int(int64(a.GetStartTimeUnixNano()) - int64(b.GetStartTimeUnixNano()))
	})
	return found
}

func (r *receiver) metric(name string) *metricpb.Metric {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.metrics[name]
}

// callLog is the log record of a call; nil when it has not arrived.
func (r *receiver) callLog(id string) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range r.logs {
		if attributes := flat(record.GetAttributes()); attributes["tool_use_id"] == id {
			return attributes
		}
	}
	return nil
}

// flat makes attributes comparable.
func flat(attributes []*commonpb.KeyValue) map[string]string {
	made := make(map[string]string, len(attributes))
	for _, a := range attributes {
		switch v := a.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			made[a.GetKey()] = v.StringValue
		default:
			_, text, _ := strings.Cut(prototext.MarshalOptions{}.Format(a.GetValue()), ":")
			made[a.GetKey()] = strings.TrimSpace(text)
		}
	}
	return made
}
