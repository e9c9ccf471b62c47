package telemetry

import (
	"testing"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
)

func TestWhoSendsTheTelemetry(t *testing.T) {
	for name, c := range map[string]struct{ environment, instance, service string }{
		"as the config says":      {"", "checkout-7", "sidecall"},
		"as the environment says": {"service.instance.id=pod-1,service.name=checkout", "pod-1", "checkout"},
		"of another attribute":    {"deployment.environment.name=test", "checkout-7", "sidecall"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", c.environment)
			res, err := Service{Version: "1.2.3", Instance: "checkout-7"}.resource(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if id, _ := res.Set().Value(semconv.ServiceInstanceIDKey); id.AsString() != c.instance {
				t.Errorf("service.instance.id is %q, want %q", id.AsString(), c.instance)
			}
			if service, _ := res.Set().Value(semconv.ServiceNameKey); service.AsString() != c.service {
				t.Errorf("service.name is %q, want %q", service.AsString(), c.service)
			}
		})
	}
}
