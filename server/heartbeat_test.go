package server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/tool"
)

// slow works for a while and reports progress every so often; 0 for never.
func slow(work, every time.Duration) *fakeBackend {
	return &fakeBackend{do: func(ctx context.Context, in backend.Invocation) (backend.Reply, *tool.Failure) {
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
					return backend.Reply{}, &tool.Failure{Code: tool.CodeCancelled, Evidence: tool.Ambiguous}
				}
				return backend.Reply{}, &tool.Failure{Code: tool.CodeTimeout, Evidence: tool.Ambiguous}
			}
			if every > 0 && in.Progress != nil {
				in.Progress("working")
			}
		}
		return backend.Reply{Text: []byte("done")}, nil
	}}
}

func TestProgressKeepsALongCallAlive(t *testing.T) {
	beats := func(r *Route) { r.Heartbeat = true }
	once := func(r *Route) { r.Tool.Policy.Retry.MaxAttempts = 1 }
	for name, test := range map[string]struct {
		backend *fakeBackend
		change  []func(*Route)
		code    tool.Code
		took    time.Duration
	}{
		"progress, longer than the timeout":            {slow(3*time.Second, 600*time.Millisecond), []func(*Route){beats, once}, "", 3 * time.Second},
		"no progress":                                  {slow(3*time.Second, 0), []func(*Route){beats, once}, tool.CodeTimeout, time.Second},
		"progress that stops too long":                 {slow(6*time.Second, 1500*time.Millisecond), []func(*Route){beats, once}, tool.CodeTimeout, time.Second},
		"progress beyond the deadline of the call":     {slow(time.Minute, 600*time.Millisecond), []func(*Route){beats, once}, tool.CodeTimeout, 5 * time.Second},
		"a backend without progress keeps its timeout": {slow(3*time.Second, 600*time.Millisecond), []func(*Route){once}, tool.CodeTimeout, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSidecar(t, newRoute(t, "work", tool.ReadOnly, test.backend, test.change...))
				began := time.Now()
				res := s.call(request("toolu_1", "work"))
				if code(res) != test.code || time.Since(began) != test.took {
					t.Errorf("%q after %s, want %q after %s: %s", code(res), time.Since(began), test.code, test.took, res.GetContent())
				}
			})
		})
	}
}

func TestAHeartbeatEndsWithItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(context.Background())
		h := withHeartbeat(parent, time.Second)
		defer h.stop()
		child, stop := context.WithCancel(h)
		defer stop()
		cancel()
		<-child.Done()
		if !errors.Is(h.Err(), context.Canceled) || !errors.Is(child.Err(), context.Canceled) {
			t.Errorf("%v, %v", h.Err(), child.Err())
		}
		h.beat() // too late, and harmless
	})
}

func TestAChildOfAHeartbeatSeesTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := withHeartbeat(context.Background(), time.Second)
		defer h.stop()
		child, stop := context.WithTimeout(h, time.Hour)
		defer stop()
		<-child.Done()
		if !errors.Is(child.Err(), context.DeadlineExceeded) {
			t.Errorf("got %v", child.Err())
		}
	})
}

func TestACancelledLongCallIsACancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		s := newSidecar(t, newRoute(t, "work", tool.NonIdempotent, slow(time.Minute, 100*time.Millisecond), func(r *Route) { r.Heartbeat = true }))
		time.AfterFunc(time.Second, cancel)
		if res := s.Execute(ctx, "", request("toolu_1", "work")); code(res) != tool.CodeOutcomeUnknown || s.state("toolu_1") != dedupe.Unknown {
			t.Errorf("got %s", res.GetContent())
		}
	})
}
