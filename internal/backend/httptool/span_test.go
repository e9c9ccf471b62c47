package httptool_test

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/sidecall/sidecall/internal/backend/httptool"
	"github.com/sidecall/sidecall/internal/tool"
)

// traced makes a call within a span, and returns what the span says of it.
func traced(ctx context.Context, t *testing.T, c call, b *httptool.Backend) (map[string]string, *tool.Failure) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("test").Start(ctx, "attempt")
	_, failure := c.under(ctx, t, b)
	span.End()
	got := make(map[string]string)
	for _, a := range spans.GetSpans()[0].Attributes {
		got[string(a.Key)] = a.Value.String()
	}
	return got, failure
}

// An attempt's span says which request was sent and how it was answered, without the value
// of any argument or of any query, and without a path that came from a reference.
func TestTheSpanOfAnAttempt(t *testing.T) {
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "missing") {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	at, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		call     call
		path     string // of base_url
		hidePath bool
		url      string
		status   string
	}{
		"arguments in the path": {
			call: call{spec: httptool.Spec{Path: "/orders/{id}/{kind}.json"}, args: `{"id":"s3cret/1","kind":"s3cret"}`},
			url:  "/orders/REDACTED/REDACTED.json", status: "200",
		},
		"and in the query": {
			call: call{spec: httptool.Spec{Path: "/find?key=s3cret&flag", Query: map[string]string{"q r": "q", "absent": "a", "none": "n"}}, args: `{"q":["s3cret","s3cret2"],"n":null}`},
			url:  "/find?key=REDACTED&flag=REDACTED&q%20r=REDACTED", status: "200",
		},
		"all of them": {
			call: call{spec: httptool.Spec{Path: "/find/{id}"}, args: `{"id":"s3cret","b":"s3cret","a&":1,"c":null}`},
			url:  "/find/REDACTED?a%26=REDACTED&b=REDACTED", status: "200",
		},
		"in the body": {
			call: call{spec: httptool.Spec{Method: "POST", Path: "/pay"}, args: `{"cents":1,"card":"s3cret"}`},
			url:  "/pay", status: "200",
		},
		"a path of base_url": {
			call: call{spec: httptool.Spec{Path: "/missing"}}, path: "/api/v1", url: "/api/v1/missing", status: "404",
		},
		"one from a reference": {
			call: call{spec: httptool.Spec{Path: "/missing"}}, path: "/hooks/s3cret", hidePath: true, url: "/REDACTED/missing", status: "404",
		},
		"without a path": {call: call{spec: httptool.Spec{Path: ""}}, hidePath: true, url: "", status: "200"},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, httptool.Config{BaseURL: base + c.path, AllowPrivate: true, HidePath: c.hidePath})
			got, _ := traced(t.Context(), t, c.call, b)
			method := c.call.spec.Method
			if method == "" {
				method = http.MethodGet
			}
			want := map[string]string{
				"http.request.method": method, "server.address": at.Hostname(), "server.port": at.Port(),
				"url.full": base + c.url, "http.response.status_code": c.status,
			}
			if !maps.Equal(got, want) {
				t.Errorf("the span has %v, want %v", got, want)
			}
		})
	}
}

// A request that nobody answers has no status; one that could not be made has nothing; and
// of one that was sent elsewhere on the same host the answer counts that came at last.
func TestTheSpanOfAnAttemptWithoutAnAnswer(t *testing.T) {
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/there?token=s3cret", http.StatusFound)
		case "/there":
			w.WriteHeader(http.StatusAccepted)
		default:
			panic(http.ErrAbortHandler)
		}
	})
	b := at(t, base)
	got, failure := traced(t.Context(), t, call{spec: httptool.Spec{Path: "/cut"}}, b)
	if status, said := got["http.response.status_code"]; failure == nil || said || got["url.full"] != base+"/cut" {
		t.Errorf("without an answer: status %q, %v, %v", status, got, failure)
	}
	got, failure = traced(t.Context(), t, call{spec: httptool.Spec{Path: "/o/{id}"}}, b)
	if failure == nil || len(got) > 0 {
		t.Errorf("of no request the span says %v, %v", got, failure)
	}
	got, failure = traced(t.Context(), t, call{spec: httptool.Spec{Path: "/moved"}, effect: tool.ReadOnly}, b)
	if failure != nil || got["http.response.status_code"] != "202" || got["url.full"] != base+"/moved" {
		t.Errorf("of one that was redirected the span says %v, %v", got, failure)
	}
}

// The port is that of the scheme where base_url names none.
func TestThePortOfASpan(t *testing.T) {
	refusing, cancel := context.WithCancel(t.Context())
	cancel()
	for base, port := range map[string]string{"http://shop.invalid": "80", "https://shop.invalid/x": "443", "http://[::1]:81": "81"} {
		got, failure := traced(refusing, t, call{spec: httptool.Spec{Path: "/x"}}, at(t, base))
		if failure == nil || got["server.port"] != port {
			t.Errorf("%s: the span has %v, want the port %s", base, got, port)
		}
	}
}
