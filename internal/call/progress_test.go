package call_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/test/testkit/calltest"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// slow works for a while and reports progress every so often; 0 for never.
func slow(work, every time.Duration) *calltest.Backend {
	return &calltest.Backend{Do: func(ctx context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
		began := time.Now()
		for time.Since(began) < work {
			step := work
			if every > 0 {
				step = every
			}
			select {
			case <-time.After(step):
			case <-ctx.Done():
				if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
					return tool.Reply{}, &tool.Failure{Code: tool.CodeCancelled, Evidence: tool.Ambiguous}
				}
				return tool.Reply{}, &tool.Failure{Code: tool.CodeTimeout, Evidence: tool.Ambiguous}
			}
			if every > 0 && in.Progress != nil {
				in.Progress(backend.Sign{Note: "working"})
			}
		}
		return tool.Reply{Text: []byte("done")}, nil
	}}
}

func TestProgressKeepsALongCallAlive(t *testing.T) {
	beats := func(r *catalog.Route) { r.Heartbeat = true }
	once := func(r *catalog.Route) { r.Tool.Policy.Retry.MaxAttempts = 1 }
	for name, test := range map[string]struct {
		backend *calltest.Backend
		change  []func(*catalog.Route)
		code    tool.Code
		took    time.Duration
	}{
		"progress, longer than the timeout":            {slow(3*time.Second, 600*time.Millisecond), []func(*catalog.Route){beats, once}, "", 3 * time.Second},
		"no progress":                                  {slow(3*time.Second, 0), []func(*catalog.Route){beats, once}, tool.CodeTimeout, time.Second},
		"progress that stops too long":                 {slow(6*time.Second, 1500*time.Millisecond), []func(*catalog.Route){beats, once}, tool.CodeTimeout, time.Second},
		"progress beyond the deadline of the call":     {slow(time.Minute, 600*time.Millisecond), []func(*catalog.Route){beats, once}, tool.CodeTimeout, 5 * time.Second},
		"a backend without progress keeps its timeout": {slow(3*time.Second, 600*time.Millisecond), []func(*catalog.Route){once}, tool.CodeTimeout, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := calltest.New(t, calltest.NewRoute(t, "work", tool.ReadOnly, test.backend, test.change...))
				began := time.Now()
				res := s.Call(calltest.Request("toolu_1", "work"))
				if calltest.Code(res) != test.code || time.Since(began) != test.took {
					t.Errorf("%q after %s, want %q after %s: %s", calltest.Code(res), time.Since(began), test.code, test.took, res.GetContent())
				}
			})
		})
	}
}

func TestACancelledLongCallIsACancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		s := calltest.New(t, calltest.NewRoute(t, "work", tool.NonIdempotent, slow(time.Minute, 100*time.Millisecond), func(r *catalog.Route) { r.Heartbeat = true }))
		time.AfterFunc(time.Second, cancel)
		if res := s.Execute(ctx, call.NewRequest("", calltest.Request("toolu_1", "work"))); calltest.Code(res) != tool.CodeOutcomeUnknown || s.State("toolu_1") != dedupe.Unknown {
			t.Errorf("got %s", res.GetContent())
		}
	})
}
