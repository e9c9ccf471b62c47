package app

import (
	"context"
	"log/slog"
	"testing"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// A sidecar inside of a program ends after its calls, as any does.
func TestTheEndOfAnInnerSidecarWaitsForItsCalls(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}), make(chan struct{})
	slow := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		close(started)
		<-release
		return tool.Reply{Text: []byte("done")}, nil
	}}
	cfg, err := config.Parse("test", []byte(`
store: {memory: {}}
backends: {shop: {exec: {}}}
tools: {act: {backend: shop, description: acts, effect: read_only, exec: {argv: [act]}, input_schema: {type: object}}}
`), config.System())
	if err != nil {
		t.Fatal(err)
	}
	inner, err := StartInner(t.Context(), cfg, Options{Log: slog.DiscardHandler, Brought: Brought{Backends: map[string]backend.Backend{"shop": slow}}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan *sidecallv1.ExecuteToolResponse)
	go func() {
		ended <- inner.Execute(context.Background(), "", &sidecallv1.ExecuteToolStreamRequest{Call: calltest.Request("toolu_1", "act")})
	}()
	<-started
	expired, cancel := context.WithCancel(t.Context())
	cancel()
	if left := inner.parts.drain.Start(expired); left != 1 {
		t.Errorf("%d calls in flight, want 1", left)
	}
	close(release)
	if res := <-ended; res.GetContent() != "done" {
		t.Errorf("%v", res)
	}
	if err := inner.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
