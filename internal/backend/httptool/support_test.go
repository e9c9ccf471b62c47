package httptool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.uber.org/goleak"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/httptool"
	"github.com/sidecall/sidecall/internal/tool"
)

// The propagator is what telemetry.Start makes it by default.
func TestMain(m *testing.M) {
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	goleak.VerifyTestMain(m)
}

// open returns a backend that is closed at the end of the test.
func open(t testing.TB, cfg httptool.Config) *httptool.Backend {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "shop"
	}
	b, err := httptool.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return b
}

// at opens a backend at a URL on this machine.
func at(t testing.TB, url string) *httptool.Backend {
	t.Helper()
	return open(t, httptool.Config{BaseURL: url, AllowPrivate: true})
}

// serve runs a handler until the end of the test.
func serve(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL
}

// call is a call of one tool, with what a test wants to be different.
type call struct {
	spec   httptool.Spec
	args   string
	effect tool.Effect
	limit  int64
	key    string
	reject []int
}

// on makes the call, bounded by ten seconds.
func (c call) on(t testing.TB, b *httptool.Backend) (tool.Reply, *tool.Failure) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return c.under(ctx, t, b)
}

// under makes the call under a context.
func (c call) under(ctx context.Context, t testing.TB, b *httptool.Backend) (tool.Reply, *tool.Failure) {
	t.Helper()
	if c.spec.Method == "" {
		c.spec.Method = http.MethodGet
	}
	if err := b.Register("it", c.spec); err != nil {
		t.Fatal(err)
	}
	return b.Invoke(ctx, c.invocation(t))
}

func (c call) invocation(t testing.TB) backend.Invocation {
	t.Helper()
	if c.args == "" {
		c.args = "{}"
	}
	parsed := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader([]byte(c.args)))
	decoder.UseNumber()
	if err := decoder.Decode(&parsed); err != nil {
		t.Fatal(err)
	}
	if c.limit == 0 {
		c.limit = 1 << 20
	}
	return backend.Invocation{
		Tool: "it", Args: json.RawMessage(c.args), Parsed: parsed, Effect: c.effect,
		MaxBytes: c.limit, IdempotencyKey: c.key, RejectsBeforeWork: c.reject, Attempt: 1,
	}
}

// proves checks code and evidence of a failure.
func proves(t testing.TB, failure *tool.Failure, code tool.Code, evidence tool.Evidence) {
	t.Helper()
	if failure == nil {
		t.Fatalf("no failure, want %s (%s)", code, evidence)
	}
	if failure.Code != code || failure.Evidence != evidence {
		t.Errorf("failure = %s (%s, %s): %v; want %s (%s)", failure.Code, failure.Evidence, failure.ErrorType, failure.Err, code, evidence)
	}
	if failure.ErrorType == "" || failure.Constraint == "" {
		t.Errorf("failure %+v lacks a type or a constraint", failure)
	}
}

func noFailure(t testing.TB, failure *tool.Failure) {
	t.Helper()
	if failure != nil {
		t.Fatalf("failure = %+v, want none", failure)
	}
}
