package collector

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logpb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// Span is a span, and the service that sent it.
type Span struct {
	*tracepb.Span

	Service string
	// Schema is the schema URL of the conventions that its scope follows.
	Schema string
}

// Spans are all spans that were written so far, in the order of their start.
func (c *Collector) Spans() []Span {
	c.tb.Helper()
	var found []Span
	for _, batch := range messages[tracepb.TracesData](c, traces) {
		for _, resource := range batch.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				for _, span := range scope.GetSpans() {
					found = append(found, Span{span, service(resource.GetResource()), scope.GetSchemaUrl()})
				}
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Span) int {
		return int(int64(a.GetStartTimeUnixNano()) - int64(b.GetStartTimeUnixNano()))
	})
	return found
}

// Metrics are the latest of each name.
func (c *Collector) Metrics() map[string]*metricpb.Metric {
	c.tb.Helper()
	found := make(map[string]*metricpb.Metric)
	for _, batch := range messages[metricpb.MetricsData](c, metrics) {
		for _, resource := range batch.GetResourceMetrics() {
			for _, scope := range resource.GetScopeMetrics() {
				for _, metric := range scope.GetMetrics() {
					found[metric.GetName()] = metric
				}
			}
		}
	}
	return found
}

// Logs are all records that were written so far.
func (c *Collector) Logs() []*logpb.LogRecord {
	c.tb.Helper()
	var found []*logpb.LogRecord
	for _, batch := range messages[logpb.LogsData](c, logs) {
		for _, resource := range batch.GetResourceLogs() {
			for _, scope := range resource.GetScopeLogs() {
				found = append(found, scope.GetLogRecords()...)
			}
		}
	}
	return found
}

// Instances are the service.instance.id of all that sent something, by signal.
func (c *Collector) Instances() map[string][]string {
	c.tb.Helper()
	found := make(map[string][]string)
	add := func(signal string, resource *resourcepb.Resource) {
		id := Attributes(resource.GetAttributes())["service.instance.id"]
		if !slices.Contains(found[signal], id) {
			found[signal] = append(found[signal], id)
		}
	}
	for _, batch := range messages[tracepb.TracesData](c, traces) {
		for _, resource := range batch.GetResourceSpans() {
			add(traces, resource.GetResource())
		}
	}
	for _, batch := range messages[metricpb.MetricsData](c, metrics) {
		for _, resource := range batch.GetResourceMetrics() {
			add(metrics, resource.GetResource())
		}
	}
	for _, batch := range messages[logpb.LogsData](c, logs) {
		for _, resource := range batch.GetResourceLogs() {
			add(logs, resource.GetResource())
		}
	}
	return found
}

// Text is everything that was written so far.
func (c *Collector) Text() string {
	c.tb.Helper()
	var all strings.Builder
	for _, batch := range messages[tracepb.TracesData](c, traces) {
		all.WriteString(prototext.Format(batch))
	}
	for _, batch := range messages[metricpb.MetricsData](c, metrics) {
		all.WriteString(prototext.Format(batch))
	}
	for _, batch := range messages[logpb.LogsData](c, logs) {
		all.WriteString(prototext.Format(batch))
	}
	return all.String()
}

// messages are those that a file has whole: each comes after its length in four bytes,
// and the last may still be on its way.
func messages[T any, M interface {
	*T
	proto.Message
}](c *Collector, file string,
) []M {
	c.tb.Helper()
	rest, err := os.ReadFile(filepath.Join(c.dir, file))
	if err != nil {
		c.tb.Fatal(err)
	}
	var found []M
	for len(rest) >= 4 {
		size := int(binary.BigEndian.Uint32(rest))
		if len(rest)-4 < size {
			break
		}
		message := M(new(T))
		if err := proto.Unmarshal(rest[4:4+size], message); err != nil {
			c.tb.Fatalf("%s: %v", file, err)
		}
		found, rest = append(found, message), rest[4+size:]
	}
	return found
}

func service(resource *resourcepb.Resource) string {
	return Attributes(resource.GetAttributes())["service.name"]
}

// Attributes makes attributes comparable: strings as they are, all else as protobuf's
// text format has it.
func Attributes(attributes []*commonpb.KeyValue) map[string]string {
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
