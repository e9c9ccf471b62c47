package httptool_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sidecall/sidecall/internal/backend/httptool"
)

var benchArgs = `{"cents":1250,"currency":"EUR","note":"thank you","order_id":"A-1042"}`

func benchUpstream(b *testing.B) string {
	b.Helper()
	answer := []byte(`{"id":"r_1","order_id":"A-1042","cents":1250,"state":"done"}`)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}))
	b.Cleanup(s.Close)
	return s.URL
}

// BenchmarkInvoke compares a call with what it takes by hand.
func BenchmarkInvoke(b *testing.B) {
	url := benchUpstream(b)
	b.Run("by hand", func(b *testing.B) {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
		defer client.CloseIdleConnections()
		b.ReportAllocs()
		for b.Loop() {
			resp, err := client.Post(url+"/refunds", "application/json", bytes.NewReader([]byte(benchArgs)))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadAll(resp.Body); err != nil {
				b.Fatal(err)
			}
			_ = resp.Body.Close()
		}
	})
	for name, spec := range map[string]httptool.Spec{
		"POST":                    {Method: "POST", Path: "/refunds"},
		"POST with path and rest": {Method: "POST", Path: "/orders/{order_id}/refunds", IdempotencyHeader: "Idempotency-Key"},
		"GET":                     {Method: "GET", Path: "/orders/{order_id}", Query: map[string]string{"c": "currency"}},
	} {
		b.Run(name, func(b *testing.B) {
			api := at(b, url)
			if err := api.Register("it", spec); err != nil {
				b.Fatal(err)
			}
			in := call{args: benchArgs, key: "0123456789abcdef0123456789abcdef"}.invocation(b)
			b.ReportAllocs()
			for b.Loop() {
				if _, failure := api.Invoke(context.Background(), in); failure != nil {
					b.Fatal(failure)
				}
			}
		})
	}
}
