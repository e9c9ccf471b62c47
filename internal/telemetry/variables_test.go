package telemetry

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
)

// logOfAStart is what is in the log of a telemetry that has started and ended.
func logOfAStart(t *testing.T) string {
	t.Helper()
	before := otel.GetTextMapPropagator()
	t.Cleanup(func() { otel.SetTextMapPropagator(before) })
	var log bytes.Buffer
	started, err := Start(t.Context(), Service{Version: "test"}, slog.NewTextHandler(&log, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := started.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return log.String()
}

// What the SDK says beside its errors is in the log, as all is.
func TestTheSDKSpeaksInTheLog(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_METRICS_EXPORTER", "none")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")
	log := logOfAStart(t)
	if !strings.Contains(log, `level=ERROR msg="parse duration"`) {
		t.Errorf("the log is\n%s", log)
	}
}

// What an exporter cannot read of its variables is left out and named, and never quoted:
// headers and endpoints hold keys.
func TestWhatAVariableHoldsIsNotLogged(t *testing.T) {
	for name, c := range map[string]struct{ variable, value, left, says string }{
		"a colon for the equals sign": {"OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=shop, Authorization: Bearer sk-live-7", "x-tenant=shop", "not key=value with an escaped value: header 2"},
		"a key that is none":          {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "Authorization: Bearer=sk-live-7", "", "not key=value with an escaped value: header 1"},
		"an escape that is none":      {"OTEL_EXPORTER_OTLP_LOGS_HEADERS", "auth=%zzsk-live-7", "", "not key=value with an escaped value: header 1"},
		"two of three":                {"OTEL_EXPORTER_OTLP_HEADERS", "sk-live-7,b=c,=sk-live-7", "b=c", "not key=value with an escaped value: header 1, 3"},
		"headers that are some":       {"OTEL_EXPORTER_OTLP_METRICS_HEADERS", "auth=Bearer%20sk-live-7,b=", "auth=Bearer%20sk-live-7,b=", ""},
		"an endpoint that is none":    {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://shop:sk-live-7@[collector", "", "no URL"},
		"an endpoint":                 {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://shop:sk-live-7@127.0.0.1:1", "http://shop:sk-live-7@127.0.0.1:1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(c.variable, c.value)
			log := logOfAStart(t)
			if strings.Contains(log, "sk-live-7") {
				t.Errorf("the log shows it:\n%s", log)
			}
			if got := os.Getenv(c.variable); got != c.left {
				t.Errorf("%q is left, want %q", got, c.left)
			}
			if named := strings.Contains(log, c.variable+": "+c.says); named != (c.says != "") {
				t.Errorf("the log is\n%s", log)
			}
		})
	}
}
